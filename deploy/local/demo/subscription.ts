import type { Partner } from './partner.ts';

const PATH = '/api/2026-10/webhooks';

interface Subscription {
  readonly id: number;
  readonly url: string;
  readonly secret: string;
}

/** Subscribes to `return.closed` at this URL, and returns the subscription with its secret. */
export async function subscribe(partner: Partner, url: string): Promise<Subscription> {
  // If the response of an earlier attempt was lost, a subscription with an unknown secret exists; delete it first.
  await unsubscribe(partner, url);
  const body = { topic: 'return', trigger: 'return.closed', url };
  const { status, body: created } = await partner.call('subscribe', 'POST', PATH, body);
  if (status !== 201) throw new Error(`subscribe: ${status} ${JSON.stringify(created)}`);
  return created as Subscription;
}

/** Deletes all subscriptions at this URL. */
export async function unsubscribe(partner: Partner, url: string): Promise<void> {
  const { body } = await partner.call('list webhooks', 'GET', PATH);
  for (const subscription of body as readonly Subscription[]) {
    if (subscription.url !== url) continue;
    await partner.call('unsubscribe', 'DELETE', `${PATH}/${subscription.id}`);
  }
}
