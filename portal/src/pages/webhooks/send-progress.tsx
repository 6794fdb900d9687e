import { useQuery } from '@connectrpc/connect-query';
import { Alert, Progress } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { count, numberText } from '../../words.ts';
import { useMissed } from './use-missed.ts';

/** How often the progress is read. Milliseconds. */
const REFRESH_MS = 2_000;

/** How many of the deliveries that were sent again are not received yet. */
export function SendProgress(o: {
  readonly webhook: Webhook;
  readonly total: number;
  readonly onClose: () => void;
}) {
  const { webhook, total } = o;
  const rest = Math.min(total, useMissed(webhook).total);
  const refetchInterval = rest > 0 ? REFRESH_MS : false;
  useQuery(WebhooksService.method.getWebhook, { webhookId: webhook.id }, { refetchInterval });
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
      <Link to="/replays" search={{ webhook: webhook.id }}>
        Open the jobs of this webhook
      </Link>
    </Alert>
  );
}
