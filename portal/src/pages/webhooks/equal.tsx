import { useQuery } from '@connectrpc/connect-query';
import { Alert } from '@mantine/core';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { webhooksText } from './name.ts';
import { useWebhookNames } from './use-webhook-names.ts';

type Chosen = Pick<Webhook, 'url' | 'topic' | 'trigger'>;

/**
 * Warns in a form that an event would be sent several times, because other webhooks have the same address, event and
 * topic. It is allowed, and mostly a mistake.
 *
 * @param o.own the id of the webhook that is edited; absent for a new one.
 */
export function EqualToChosen(o: { readonly chosen: Chosen; readonly own?: string }) {
  const { data } = useQuery(WebhooksService.method.listWebhooks, {});
  const equal = (data?.webhooks ?? []).filter((one) => one.id !== o.own && isEqual(one, o.chosen));
  return <EqualWebhooks ids={equal.map(({ id }) => id)} />;
}

function isEqual(one: Chosen, other: Chosen): boolean {
  return one.url === other.url && one.topic === other.topic && one.trigger === other.trigger;
}

/** How many webhooks the warning names. */
const NAMED = 5;

/** The warning about the other webhooks with these ids. Nothing without ids. */
export function EqualWebhooks({ ids }: { readonly ids: readonly string[] }) {
  const named = useWebhookNames();
  if (ids.length === 0) return null;
  return (
    <Alert color="yellow" role="status" title="There is an equal webhook">
      {webhooksText(ids.slice(0, NAMED).map(named))}
      {ids.length > NAMED && ` and ${ids.length - NAMED} more`} {ids.length === 1 ? 'has' : 'have'}{' '}
      the same address, event and topic. While all of them are active, your system gets each event{' '}
      {ids.length + 1} times, each time with another webhook-id.
    </Alert>
  );
}
