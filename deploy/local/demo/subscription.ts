import type { Partner } from './partner.ts';

const PATH = '/api/2026-10/webhooks';

interface Subscription {
  readonly id: number;
  readonly url: string;
  readonly secret: string;
}

/** Subscribes to `return.closed` at this address, and answers the subscription with its secret. */
export async function subscribe(partner: Partner, url: string): Promise<Subscription> {
  // An answer lost on the way leaves a subscription whose secret nobody knows: begin clean.
  await unsubscribe(partner, url);
  const body = { topic: 'return', trigger: 'return.closed', url };
  const { status, body: created } = await partner.call('subscribe', 'POST', PATH, body);
  if (status !== 201) throw new Error(`subscribe: ${status} ${JSON.stringify(created)}`);
  return created as Subscription;
}

/** Removes every subscription at this address. */
export async function unsubscribe(partner: Partner, url: string): Promise<void> {
  const { body } = await partner.call('list webhooks', 'GET', PATH);
  for (const subscription of body as readonly Subscription[]) {
    if (subscription.url !== url) continue;
    await partner.call('unsubscribe', 'DELETE', `${PATH}/${subscription.id}`);
  }
}
