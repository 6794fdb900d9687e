import { createSecretStore } from '../../platform/outbound/secrets.ts';

/** The subscription that a secret signs for. */
export interface Owner {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
}

/** The signing secrets of subscriptions. */
export const SECRETS = createSecretStore<Owner>({
  table: 'secrets',
  owner: {
    shop_id: ({ shopId }) => shopId,
    subscription_id: ({ subscriptionId }) => subscriptionId,
  },
});
