import { useQuery } from '@connectrpc/connect-query';
import { Alert, Progress, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useRef, useState } from 'react';
import {
  type PreviewReplayResponse,
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { Loaded } from '../../parts/states.tsx';
import { count, numberText } from '../../words.ts';
import { GIVEN_UP } from '../deliveries/delivery.ts';
import { notSentItems, untilNow } from '../replays/start.tsx';
import { type Missed, useMissed } from './missed.tsx';

/**
 * Sends everything that a webhook has not received: what waits at once, and what was given up by a replay. A repeat after
 * an error begins where the error was, so that nothing is sent twice.
 */
export function ResendMissed(o: {
  readonly webhook: Subscription;
  readonly onClose: () => void;
  /** Called with the number of deliveries that are sent. */
  readonly onSent: (total: number) => void;
}) {
  const { id: subscriptionId } = o.webhook;
  const missed = useMissed(o.webhook);
  const { waiting } = missed;
  const { previewReplay, retryDeliveries, startReplay } = WebhooksService.method;
  const [filter] = useState(() => untilNow({ subscriptionId, states: GIVEN_UP }));
  const preview = useQuery(previewReplay, { filter }, { staleTime: Infinity, gcTime: 0 });
  const { data } = preview;
  const again = data && !data.more ? data.replayable : 0;
  // Without the preview the button would send only what waits.
  const total = data ? waiting + again : 0;
  // The count at the click: before the last call ends, the first deliveries may be received and no longer count.
  const sent = useRef(0);
  const isRetried = useRef(false);
  const finish = () => {
    o.onClose();
    o.onSent(sent.current);
  };
  const replay = useWrite(startReplay, { inline: true, onSuccess: finish });
  const sendAgain = () => {
    isRetried.current = true;
    if (again === 0) return finish();
    replay.run({ filter });
  };
  const retry = useWrite(retryDeliveries, { inline: true, onSuccess: sendAgain });
  const send = () => {
    sent.current = Math.max(sent.current, total);
    if (waiting === 0 || isRetried.current) sendAgain();
    else retry.run({ subscriptionId });
  };
  return (
    <FormModal
      title="Send all that was not received"
      onClose={o.onClose}
      submit={total > 0 ? `Send ${count(total, 'delivery', 'deliveries')}` : 'Send'}
      pending={retry.isPending || replay.isPending}
      error={retry.error ?? replay.error}
      disabled={total === 0}
      onSubmit={send}
    >
      <Loaded query={preview} rows={2}>
        {(found) => <WhatIsSent found={found} again={again} missed={missed} />}
      </Loaded>
      {o.webhook.health?.pausedSince && (
        <Text size="sm">
          The address failed again and again, so that one delivery tries it first. The others follow
          as soon as one succeeds.
        </Text>
      )}
      <Text size="sm" c="dimmed">
        Each has the same webhook-id and the same payload as before. A system that remembers the
        webhook-id handles nothing twice.
      </Text>
    </FormModal>
  );
}

function WhatIsSent(o: {
  readonly found: PreviewReplayResponse;
  readonly again: number;
  readonly missed: Missed;
}) {
  const { found, again, missed } = o;
  const tests = missed.isMore || found.more ? 0 : missed.givenUp - found.matched;
  const items: [string, string][] = [];
  if (missed.waiting > 0) {
    items.push(['now', `${count(missed.waiting, 'waits and is', 'wait and are')} sent now`]);
  }
  if (again > 0) {
    items.push([
      'again',
      again === 1
        ? '1 was given up and is sent again'
        : `${numberText(again)} were given up and are sent again, oldest first`,
    ]);
  }
  if (found.more) {
    items.push([
      'more',
      'more than 100,000 were given up, which is too many for one job: choose a part in the log',
    ]);
  }
  if (tests > 0) items.push(['tests', `${count(tests, 'test event')}: not sent again`]);
  return (
    <Stack gap="sm">
      <Bullets items={[...items, ...notSentItems(found.notReplayable)]} />
    </Stack>
  );
}

/** How often the progress is read. Milliseconds. */
const REFRESH_MS = 2_000;

/** How many of the deliveries that were sent again are not received yet. */
export function SendProgress(o: {
  readonly webhook: Subscription;
  readonly total: number;
  readonly onClose: () => void;
}) {
  const { webhook, total } = o;
  const rest = Math.min(total, useMissed(webhook).total);
  const refetchInterval = rest > 0 ? REFRESH_MS : false;
  const read = { subscriptionId: webhook.id, includeBacklog: true };
  useQuery(WebhooksService.method.getSubscription, read, { refetchInterval });
  const received = total - rest;
  return (
    <Alert
      color={rest > 0 ? 'blue' : 'green'}
      role="status"
      withCloseButton
      closeButtonLabel="Close"
      onClose={o.onClose}
      title={
        rest > 0
          ? `Sending ${count(total, 'delivery', 'deliveries')}`
          : `All ${count(total, 'delivery', 'deliveries')} were received`
      }
    >
      <Progress value={(received / total) * 100} aria-label="Received" mb="xs" />
      {numberText(received)} of {numberText(total)} received.{' '}
      <Link to="/replays" search={{ webhook: String(webhook.id) }}>
        Open the jobs of this webhook
      </Link>
    </Alert>
  );
}
