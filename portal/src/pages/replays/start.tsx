import type { Message } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { useQuery } from '@connectrpc/connect-query';
import { Group, Stack, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  type DeliveryFilter,
  type PreviewReplayResponse,
  type Replay,
  type Subscription,
  type Unreplayable,
  UnreplayableReason,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { localMoment } from '../../api/dates.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { DateFilter } from '../../parts/filters.tsx';
import { Loaded } from '../../parts/states.tsx';
import { now } from '../../parts/time/clock.ts';
import { Time } from '../../parts/time/time.tsx';
import { count, numberText } from '../../words.ts';

type Filter = Partial<Omit<DeliveryFilter, keyof Message>>;

/** The filter with an end: a job sends what its preview counted, and not what happened since then. */
export function untilNow(filter: Filter): Filter {
  return { ...filter, to: filter.to ?? timestampFromMs(now()) };
}

/** Counts what a filter would send again, and starts the job. */
export function ReplayDialog(o: { readonly filter: Filter; readonly onClose: () => void }) {
  const open = useOpenJob(o.onClose);
  const [filter] = useState(() => untilNow(o.filter));
  const preview = useQuery(
    WebhooksService.method.previewReplay,
    { filter },
    // Each opening counts again: an earlier count would leave out what happened since then.
    { staleTime: Infinity, gcTime: 0 },
  );
  const { run, isPending, error } = useWrite(WebhooksService.method.startReplay, {
    inline: true,
    onSuccess: ({ replay }) => open(replay),
  });
  const { data } = preview;
  const isPossible = data !== undefined && data.replayable > 0 && !data.more;
  return (
    <FormModal
      title="Send deliveries again"
      onClose={o.onClose}
      submit={isPossible ? `Send ${count(data.replayable, 'delivery', 'deliveries')}` : 'Send'}
      pending={isPending}
      error={error}
      disabled={!isPossible}
      onSubmit={() => run({ filter })}
    >
      <Loaded query={preview} rows={3}>
        {(found) => <Preview found={found} />}
      </Loaded>
    </FormModal>
  );
}

function Preview({ found }: { readonly found: PreviewReplayResponse }) {
  if (found.matched === 0) return <Text>No delivery matches these filters.</Text>;
  return (
    <Stack gap="sm">
      <Text size="sm">
        {found.more ? 'More than ' : ''}
        {count(found.matched, 'delivery matches', 'deliveries match')}, of events from{' '}
        <Time at={found.oldestAt} /> to <Time at={found.newestAt} />.
        {found.more && ' That is too many for one job: choose a shorter time.'}
      </Text>
      {found.notReplayable.length > 0 && <Bullets items={notSentItems(found.notReplayable)} />}
      <Text size="sm" c="dimmed">
        Each is sent once, oldest first, with the same webhook-id and the same payload. A system
        that remembers the webhook-id handles nothing twice. New events go first. You can stop it.
      </Text>
    </Stack>
  );
}

/** Closes the dialog, and opens the page of the job that it started. */
function useOpenJob(close: () => void): (job: Replay | undefined) => void {
  const navigate = useNavigate();
  return (job) => {
    close();
    if (job) void navigate({ to: '/replays/$replayId', params: { replayId: String(job.id) } });
  };
}

const { WAITING, SUBSCRIPTION_DELETED, SUBSCRIPTION_INACTIVE, PAYLOAD_GONE } = UnreplayableReason;

const REASONS: Readonly<Record<number, string>> = {
  [WAITING]: 'wait, and come by themselves at the time of their next attempt',
  [SUBSCRIPTION_DELETED]: 'belong to a deleted webhook',
  [SUBSCRIPTION_INACTIVE]: 'belong to an inactive webhook: activate it first',
  [PAYLOAD_GONE]: 'have no payload any more',
};

/** A sentence for each reason why a replay leaves deliveries out, with its key. */
export function notSentItems(all: readonly Unreplayable[]): [string, string][] {
  return all.map(({ reason, count: number }) => [
    String(reason),
    `${numberText(number)} ${REASONS[reason] ?? 'cannot be sent'}: not sent now`,
  ]);
}

/** Sends a webhook the stored events that it did not get. */
export function BackfillDialog(o: {
  readonly webhook: Subscription;
  readonly onClose: () => void;
}) {
  const { webhook } = o;
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const open = useOpenJob(o.onClose);
  const [start, end] = [localMoment(from), localMoment(to)];
  const times = { ...(start && { from: start }), ...(end && { to: end }) };
  const preview = useQuery(WebhooksService.method.previewBackfill, {
    subscriptionId: webhook.id,
    ...times,
  });
  const { run, isPending, error } = useWrite(WebhooksService.method.startBackfill, {
    inline: true,
    onSuccess: ({ replay }) => open(replay),
  });
  const { data } = preview;
  return (
    <FormModal
      title="Send stored events"
      onClose={o.onClose}
      submit="Start the backfill"
      pending={isPending}
      error={error}
      disabled={!data || data.events === 0 || data.more}
      onSubmit={() => run({ subscriptionId: webhook.id, ...times })}
    >
      <Text size="sm">
        Fills this webhook with the events <code>{webhook.trigger}</code> that are still stored,
        also from before it was added.
      </Text>
      <Group grow>
        <DateFilter type="datetime-local" label="From" value={from} onChange={setFrom} />
        <DateFilter type="datetime-local" label="Until" value={to} onChange={setTo} />
      </Group>
      <Loaded query={preview} rows={1}>
        {({ events, more, oldestAt, newestAt }) => (
          <Text size="sm" role="status">
            {events === 0 ? (
              'No event of this time is stored. Events are stored for 7 days.'
            ) : (
              <>
                {more && 'More than '}
                {count(events, 'event is', 'events are')} stored for this time, from{' '}
                <Time at={oldestAt} /> to <Time at={newestAt} />.{' '}
                {more
                  ? 'That is too many for one job: choose a shorter time.'
                  : 'Those that the webhook has got are left out.'}
              </>
            )}
          </Text>
        )}
      </Loaded>
    </FormModal>
  );
}
