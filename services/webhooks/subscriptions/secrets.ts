import { createSecretStore } from '../../platform/outbound/secrets.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { subscriptionNotFound } from './subscription.ts';

/** The subscription that a secret signs for. */
interface Owner {
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

/**
 * Stores who has seen the secrets of a subscription last. The portal shows this. The gateway writes the audit log.
 *
 * @throws DomainError NOT_FOUND.
 */
export async function noteSecretShown(
  db: Queryable,
  { shopId, id }: { readonly shopId: bigint; readonly id: bigint },
  by: StoredActor,
): Promise<void> {
  const { rowCount } = await db.query(
    `update subscriptions
        set secret_shown_at = now(), secret_shown_kind = $3, secret_shown_id = $4, secret_shown_name = $5
      where shop_id = $1 and id = $2 and deleted_at is null`,
    [shopId, id, by.kind, by.id, by.name],
  );
  if (rowCount !== 1) throw subscriptionNotFound(id);
}

/** An actor in columns. */
interface StoredActor {
  readonly kind: string;
  readonly id: string;
  readonly name: string;
}
