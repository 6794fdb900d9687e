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

/** One of the shop's own recent events in two versions, line by line. Every choice is a part of the address. */
export function Compare({ setting }: { readonly setting: GetPayloadVersionResponse }) {
  const { listRecentEvents, previewPayload } = PayloadVersionService.method;
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: recent } = useQuery(listRecentEvents, {});
  const events = recent?.events ?? [];
  const set = (name: keyof typeof search) => (value: string) =>
    void navigate({ search: { ...search, [name]: value }, replace: true });

  const event = search.event === 'example' ? undefined : eventOf(events, search.event);
  const topics = event?.topics ?? ['return'];
  const topic = topics.find((one) => one === search.topic) ?? topics[0] ?? 'return';
  const names = setting.versions.map(({ version }) => version).reverse();
  const from = pick(names, search.from) ?? setting.servedVersion;
  const to = pick(names, search.to) ?? names.findLast((name) => name !== from) ?? from;
  const isReady = recent !== undefined && from !== to;
  const query = useQuery(
    previewPayload,
    { eventId: event?.id ?? '', topic, trigger: '', versions: [from, to] },
    { enabled: isReady },
  );
  return (
    <Panel
      title="Compare a payload"
      about="One of your own recent events, as it is in one version and in the other."
    >
      <Stack gap="sm">
        <Group align="flex-end" gap="sm">
          <NativeSelect
            label="Event"
            value={event?.id ?? 'example'}
            onChange={({ currentTarget }) => set('event')(currentTarget.value)}
            data={[
              ...events.map((one) => ({ value: one.id, label: eventText(one) })),
              { value: 'example', label: 'An example' },
            ]}
          />
          <NativeSelect
            label="Topic"
            data={topics}
            value={topic}
            onChange={({ currentTarget }) => set('topic')(currentTarget.value)}
          />
          <NativeSelect
            label="From"
            data={names}
            value={from}
            onChange={({ currentTarget }) => set('from')(currentTarget.value)}
          />
          <NativeSelect
            label="To"
            data={names}
            value={to}
            onChange={({ currentTarget }) => set('to')(currentTarget.value)}
          />
          <Switch
            label="Show equal lines"
            pb={8}
            checked={search.all === '1'}
            onChange={({ currentTarget }) => set('all')(currentTarget.checked ? '1' : '')}
          />
        </Group>
        {from === to ? (
          <Alert color="gray">Choose two versions that differ.</Alert>
        ) : (
          <Loaded query={query} rows={6}>
            {({ previews: [before, after], same }) =>
              same || !before || !after ? (
                <Alert color="green" role="status">
                  The payload of this event is the same in {from} and {to}. Try an event of a return
                  that a warehouse has graded.
                </Alert>
              ) : (
                <DiffView
                  before={before.payload}
                  after={after.payload}
                  whole={search.all === '1'}
                />
              )
            }
          </Loaded>
        )}
      </Stack>
    </Panel>
  );
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
