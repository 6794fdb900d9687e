import { Link } from '@tanstack/react-router';
import type { Replay } from '../../../../proto/gen/rms/portal/v1/replays_pb.ts';
import { webhookText } from '../webhooks/name.ts';
import { useWebhookNames } from '../webhooks/use-webhook-names.ts';

/** Why the deliveries of an old job are not listed, and where they are. */
export function Unlisted({ replay: { filter } }: { readonly replay: Replay }) {
  const { webhookId: webhook, trigger = '' } = filter ?? {};
  const named = useWebhookNames();
  return (
    <>
      The deliveries of this job are not listed, because it ran before the portal could list them.
      They are in the{' '}
      <Link to="/deliveries" search={{ ...(webhook !== undefined && { webhook }), trigger }}>
        {webhook === undefined ? 'log of all webhooks' : `log of ${webhookText(named(webhook))}`}
      </Link>
      , with the deliveries that it did not send.
    </>
  );
}
