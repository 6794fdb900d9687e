import type pg from 'pg';
import { addSecret } from '../../../services/webhooks/subscriptions/secrets.ts';
import { createSubscription } from '../../../services/webhooks/subscriptions/subscription-store.ts';
import { keyring } from './running-webhooks.ts';

export interface SubscriptionWish {
  readonly topic?: string;
  readonly trigger?: string;
  readonly url?: string;
  readonly status?: 'active' | 'inactive';
}

/** A valid subscription to `return.closed`, unless `wish` overrides it. */
export function subscriptionFields(wish: SubscriptionWish = {}) {
  return {
    topic: 'return',
    trigger: 'return.closed',
    url: 'https://hooks.example.com/',
    status: 'active' as const,
    ...wish,
  };
}

/** Stores a subscription with a secret, and returns its id. */
export async function newSubscription(
  pool: pg.Pool,
  shopId: bigint,
  wish: SubscriptionWish = {},
): Promise<bigint> {
  const { subscription } = await createSubscription(pool, shopId, {
    fields: subscriptionFields(wish),
    offsetMs: 0,
    limitedHost: () => undefined,
    withSecret: (tx, subscriptionId) => addSecret(tx, { shopId, subscriptionId }, keyring),
  });
  return subscription.id;
}
