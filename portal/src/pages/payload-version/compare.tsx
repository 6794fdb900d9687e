import { useQuery } from '@connectrpc/connect-query';
import { Alert, Group, NativeSelect, Stack, Switch, Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import {
  type GetPayloadVersionResponse,
  PayloadsService,
} from '../../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { timeText } from '../../parts/time/time.tsx';
import { ALL_WEBHOOKS } from '../webhooks/use-webhooks.ts';
import { type Comparable, changedTopics, comparables, versionsBetween } from './changes.ts';
import { DiffView } from './diff-view.tsx';

const route = getRouteApi('/payload-version');
type Search = ReturnType<typeof route.useSearch>;

/** What is compared. */
interface Choice {
  readonly what: Comparable | undefined;
  readonly topic: string;
  readonly from: string;
  readonly to: string;
}

/** A payload in two versions, line by line. Every choice is a part of the address. */
export function Compare({
  setting,
  other,
}: {
  readonly setting: GetPayloadVersionResponse;
  readonly other: string;
}) {
  const search = route.useSearch();
  const names = setting.versions
    .filter(({ selectable }) => selectable)
    .map(({ version }) => version)
    .reverse();
  const from = pick(names, search.from) ?? setting.version;
  const to = pick(names, search.to) ?? other;
  const { offered, isReady } = useOffered(setting, from, to);
  const what = offered.find(({ id }) => id === search.event) ?? offered[0];
  const topic = pick(what?.topics ?? [], search.topic) ?? what?.topics[0] ?? 'return';
  const choice = { what, topic, from, to };
  return (
    <div id="compare">
      <Panel
        title="Compare a payload"
        about="Your own recent events, and an example of each kind that your webhooks are sent. What differs is first."
      >
        <Stack gap="sm">
          <Fields {...{ choice, offered, names }} />
          {from === to ? (
            <Alert color="gray">Choose two versions that differ.</Alert>
          ) : (
            <Difference {...{ setting, choice, offered, isReady }} />
          )}
        </Stack>
      </Panel>
    </div>
  );
}

/** What can be compared; the shop's own events are marked by the service. */
function useOffered(setting: GetPayloadVersionResponse, from: string, to: string) {
  const { data: recent } = useQuery(
    PayloadsService.method.listRecentEvents,
    { versions: from === to ? [] : [from, to] },
    // Other versions mark the same events.
    { placeholderData: (former) => former },
  );
  const { data: found } = useQuery(WebhooksService.method.listSubscriptions, ALL_WEBHOOKS);
  const offered = comparables({
    events: recent?.events ?? [],
    webhooks: found?.subscriptions ?? [],
    changed: changedTopics(setting, from, to),
  });
  return { offered, isReady: recent !== undefined && found !== undefined };
}

function Fields(o: {
  readonly choice: Choice;
  readonly offered: readonly Comparable[];
  readonly names: readonly string[];
}) {
  const { what, topic, from, to } = o.choice;
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const set = (name: keyof Search, value: string) =>
    void navigate({ search: { ...search, [name]: value }, replace: true });
  const field = (label: string, name: keyof Search, value: string, data: readonly string[]) => (
    <NativeSelect
      label={label}
      data={[...data]}
      value={value}
      onChange={({ currentTarget }) => set(name, currentTarget.value)}
    />
  );
  const items = (differs: boolean) =>
    o.offered
      .filter((one) => one.differs === differs)
      .map(({ id, title, at }) => ({ value: id, label: at ? `${title}, ${timeText(at)}` : title }));
  const groups = [
    { group: `Differ between ${from} and ${to}`, items: items(true) },
    { group: 'The same in both versions', items: items(false) },
  ];
  return (
    <Group align="flex-end" gap="sm">
      <NativeSelect
        label="Event"
        maw="100%"
        value={what?.id ?? ''}
        onChange={({ currentTarget }) => set('event', currentTarget.value)}
        data={groups.filter((one) => one.items.length > 0)}
      />
      {field('Topic', 'topic', topic, what?.topics ?? [topic])}
      {field('From', 'from', from, o.names)}
      {field('To', 'to', to, o.names)}
      <Switch
        label="Show equal lines"
        pb={8}
        checked={search.all === '1'}
        onChange={({ currentTarget }) => set('all', currentTarget.checked ? '1' : '')}
      />
    </Group>
  );
}

function Difference(o: {
  readonly setting: GetPayloadVersionResponse;
  readonly choice: Choice;
  readonly offered: readonly Comparable[];
  readonly isReady: boolean;
}) {
  const { what, topic, from, to } = o.choice;
  const { all } = route.useSearch();
  const trigger = what?.trigger ?? '';
  const query = useQuery(
    PayloadsService.method.previewPayload,
    { eventId: trigger === '' ? (what?.id ?? '') : '', topic, trigger, versions: [from, to] },
    { enabled: o.isReady },
  );
  const different = o.offered.find(({ differs }) => differs);
  return (
    <Loaded query={query} rows={6}>
      {({ previews: [before, after], same }) =>
        same || !before || !after ? (
          <Alert color="green" role="status">
            This payload is the same in {from} and {to}.{' '}
            {different ? (
              <route.Link
                to="."
                search={(search) => ({
                  ...search,
                  event: different.id,
                  topic: different.topics[0],
                })}
                replace
              >
                Show one that differs
              </route.Link>
            ) : (
              'So are all payloads that your webhooks are sent.'
            )}
          </Alert>
        ) : (
          <>
            {versionsBetween(o.setting, from, to)
              .filter(({ changedTopics: topics }) => topics.includes(topic))
              .map(({ version, inWords }) => (
                <Text key={version} size="sm">
                  In {version}: {inWords}
                </Text>
              ))}
            <DiffView before={before.payload} after={after.payload} whole={all === '1'} />
          </>
        )
      }
    </Loaded>
  );
}

function pick(names: readonly string[], name: string | undefined): string | undefined {
  return names.find((one) => one === name);
}
