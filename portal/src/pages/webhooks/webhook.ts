import {
  type Subscription,
  SubscriptionStatus,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';

export function isActive({ status }: Pick<Subscription, 'status'>): boolean {
  return status !== SubscriptionStatus.INACTIVE;
}

/**
 * How well a webhook delivers: `healthy`, `failing` (its last attempts failed), `deactivated` (the service made it
 * inactive), `inactive` (a user did), `paused` (the address fails so often that only single deliveries are tried; this
 * webhook had no failure yet), `idle` (nothing was sent in 24 hours), `untried` (nothing was sent since the address
 * changed or a user activated it).
 */
export function healthOf(webhook: Subscription): string {
  const { failures, health } = webhook;
  if (!isActive(webhook)) return webhook.inactiveReason === '' ? 'inactive' : 'deactivated';
  if (failures > 0) return 'failing';
  if (health?.pausedSince) return 'paused';
  if ((health?.counted ?? 0) > 0) return 'healthy';
  return health?.countedSince ? 'untried' : 'idle';
}

export const isFailing = (webhook: Subscription): boolean => healthOf(webhook) === 'failing';

/** What a webhook is called by. */
export type Named = Pick<Subscription, 'id' | 'description' | 'url'>;

/** The host of an address; empty when there is none. */
export function hostOf(url: string): string {
  return URL.parse(url)?.host ?? '';
}

/**
 * A webhook in a sentence: `webhook 3`, or `Warehouse (webhook 3, hooks.example.com)`. Number and host follow a
 * description, because people write it: it may be that of another webhook, or name another host.
 *
 * @param o.word `Webhook` at the beginning of a sentence.
 * @param o.event when the reader must tell webhooks of one address apart.
 */
export function webhookText(
  { id, description, url }: Named,
  o: { readonly word?: 'Webhook'; readonly event?: string } = {},
): string {
  const event = o.event ? [o.event] : [];
  const [text, about] =
    description === ''
      ? [`${o.word ?? 'webhook'} ${id}`, event]
      : [description, [`webhook ${id}`, hostOf(url), ...event]];
  return about.length > 0 ? `${text} (${about.join(', ')})` : text;
}

/** `Webhook 3, Warehouse (webhook 4, hooks.example.com)` */
export function webhooksText(webhooks: readonly Named[]): string {
  return webhooks
    .map((one, place) => webhookText(one, place === 0 ? { word: 'Webhook' } : {}))
    .join(', ');
}
