import { useQuery } from '@connectrpc/connect-query';
import { Alert, Group, NativeSelect, Stack, Switch } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import {
  type GetPayloadVersionResponse,
  PayloadVersionService,
  type RecentEvent,
} from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { timeText } from '../../parts/time.tsx';
import { DiffView } from './diff-view.tsx';

const route = getRouteApi('/payload-version');
type Search = ReturnType<typeof route.useSearch>;

/** What is compared. */
interface Choice {
  /** Undefined: an example. */
  readonly event: RecentEvent | undefined;
  readonly topics: readonly string[];
  readonly topic: string;
  readonly names: readonly string[];
  readonly from: string;
  readonly to: string;
}

/** One of the shop's own recent events in two versions, line by line. Every choice is a part of the address. */
export function Compare({ setting }: { readonly setting: GetPayloadVersionResponse }) {
  const { listRecentEvents } = PayloadVersionService.method;
  const { data: recent } = useQuery(listRecentEvents, {});
  const choice = choiceOf(setting, recent?.events ?? [], route.useSearch());
  return (
    <Panel
      title="Compare a payload"
      about="One of your own recent events, as it is in one version and in the other."
    >
      <Stack gap="sm">
        <Fields choice={choice} events={recent?.events ?? []} />
        {choice.from === choice.to ? (
          <Alert color="gray">Choose two versions that differ.</Alert>
        ) : (
          <Difference choice={choice} isReady={recent !== undefined} />
        )}
      </Stack>
    </Panel>
  );
}

function Fields(o: { readonly choice: Choice; readonly events: readonly RecentEvent[] }) {
  const { event, topics, topic, names, from, to } = o.choice;
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
  return (
    <Group align="flex-end" gap="sm">
      <NativeSelect
        label="Event"
        value={event?.id ?? 'example'}
        onChange={({ currentTarget }) => set('event', currentTarget.value)}
        data={[
          ...o.events.map((one) => ({ value: one.id, label: eventText(one) })),
          { value: 'example', label: 'An example' },
        ]}
      />
      {field('Topic', 'topic', topic, topics)}
      {field('From', 'from', from, names)}
      {field('To', 'to', to, names)}
      <Switch
        label="Show equal lines"
        pb={8}
        checked={search.all === '1'}
        onChange={({ currentTarget }) => set('all', currentTarget.checked ? '1' : '')}
      />
    </Group>
  );
}

function Difference({ choice, isReady }: { readonly choice: Choice; readonly isReady: boolean }) {
  const { event, topic, from, to } = choice;
  const { all } = route.useSearch();
  const query = useQuery(
    PayloadVersionService.method.previewPayload,
    { eventId: event?.id ?? '', topic, trigger: '', versions: [from, to] },
    { enabled: isReady },
  );
  return (
    <Loaded query={query} rows={6}>
      {({ previews: [before, after], same }) =>
        same || !before || !after ? (
          <Alert color="green" role="status">
            The payload of this event is the same in {from} and {to}.{' '}
            {event && (
              <route.Link to="." search={(search) => ({ ...search, event: 'example' })} replace>
                Compare an example that differs
              </route.Link>
            )}
          </Alert>
        ) : (
          <DiffView before={before.payload} after={after.payload} whole={all === '1'} />
        )
      }
    </Loaded>
  );
}

/** The choice of the address, and for what it does not say: the newest event, from the served version to the newest. */
function choiceOf(
  setting: GetPayloadVersionResponse,
  events: readonly RecentEvent[],
  search: Search,
): Choice {
  const event = search.event === 'example' ? undefined : eventOf(events, search.event);
  const topics = event?.topics ?? ['return'];
  const names = setting.versions.map(({ version }) => version).reverse();
  const from = pick(names, search.from) ?? setting.servedVersion;
  return {
    event,
    topics,
    topic: pick(topics, search.topic) ?? topics[0] ?? 'return',
    names,
    from,
    to: pick(names, search.to) ?? names.findLast((name) => name !== from) ?? from,
  };
}

/** The event of the address, or the newest one about a whole return. */
function eventOf(events: readonly RecentEvent[], id: string | undefined): RecentEvent | undefined {
  return (
    events.find((event) => event.id === id) ??
    events.find(({ topics }) => topics.includes('return')) ??
    events[0]
  );
}

function eventText({ trigger, orderName, occurredAt }: RecentEvent): string {
  return [trigger, orderName, timeText(occurredAt)].filter((part) => part !== '').join(', ');
}

function pick(names: readonly string[], name: string | undefined): string | undefined {
  return names.find((one) => one === name);
}
