import type pg from 'pg';
import { createSubscription } from '../../../services/webhooks/subscriptions/subscription-store.ts';
import { keyring } from './running-webhooks.ts';

export interface SubscriptionInput {
  readonly topic?: string;
  readonly trigger?: string;
  readonly url?: string;
  readonly status?: 'active' | 'inactive';
}

/** A valid subscription to `return.closed`, unless `input` overrides it. */
export function subscriptionFields(input: SubscriptionInput = {}) {
  return {
    topic: 'return',
    trigger: 'return.closed',
    url: 'https://hooks.example.com/',
    status: 'active' as const,
    description: '',
    ...input,
  };
}

/** Stores a subscription with a secret, and returns its id. */
export async function newSubscription(
  pool: pg.Pool,
  shopId: bigint,
  input: SubscriptionInput = {},
): Promise<bigint> {
  const { subscription } = await createSubscription(pool, shopId, {
    fields: subscriptionFields(input),
    offsetMs: 0,
    limitedDomain: () => undefined,
    keyring,
  });
  return subscription.id;
}
