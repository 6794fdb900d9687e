import { useQuery } from '@connectrpc/connect-query';
import { Group, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { localMoment } from '../../api/dates.ts';
import { useWrite } from '../../api/use-write.ts';
import { DateFilter } from '../../parts/filters.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { count } from '../../words.ts';

/** Sends a webhook the stored events that it did not get. */
export function BackfillDialog(o: { readonly webhook: Webhook; readonly onClose: () => void }) {
  const { webhook } = o;
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const navigate = useNavigate();
  const [start, end] = [localMoment(from), localMoment(to)];
  const times = { ...(start && { from: start }), ...(end && { to: end }) };
  const preview = useQuery(WebhooksService.method.previewBackfill, {
    webhookId: webhook.id,
    ...times,
  });
  const { run, isPending, error } = useWrite(WebhooksService.method.startBackfill, {
    inline: true,
    onSuccess: ({ replay }) => {
      o.onClose();
      if (replay) void navigate({ to: '/replays/$replayId', params: { replayId: replay.id } });
    },
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
      onSubmit={() => run({ webhookId: webhook.id, ...times })}
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
