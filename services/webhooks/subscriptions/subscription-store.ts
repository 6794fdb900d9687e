import { createHash } from 'node:crypto';
import type pg from 'pg';
import type { Secret } from '../../platform/outbound/secrets.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../../platform/postgres/postgres.ts';
import type { Keyring } from '../../platform/security/keyring.ts';
import { claimKey, type KeyUse, oncePerKey } from '../../platform/values/idempotency.ts';
import { addQueue, changeQueue, closeQueue, lockQueue } from '../delivery/queue/queue-changes.ts';
import type { QueueRef } from '../delivery/queue/queue-ref.ts';
import { SECRETS } from './secrets.ts';
import {
  type ChosenValues,
  requireExpected,
  type Subscription,
  type SubscriptionChange,
  type SubscriptionFields,
  subscriptionNotFound,
} from './subscription.ts';
import {
  type LimitedDomain,
  lockQuota,
  requireCapacity,
  requireCapacityAtDomain,
  requireCapacityFor,
} from './subscription-limits.ts';

/** The columns of a {@link Subscription}, of `subscriptions s` and `endpoints e`. */
export const COLUMNS = `s.id, s.topic, s.trigger, e.url, s.status, s.description, s.inactive_reason as "inactiveReason",
  s.inactive_since as "inactiveSince", s.failures, s.failing_since as "failingSince",
  s.warned_percent as "warnedPercent", s.created_at as "createdAt", s.updated_at as "updatedAt",
  s.secret_shown_at as "secretShownAt", s.secret_shown_kind as "secretShownKind", s.secret_shown_id as "secretShownId",
  s.secret_shown_name as "secretShownName", (
    select max(x.expires_at) from secrets x
     where x.shop_id = s.shop_id and x.subscription_id = s.id and x.expires_at > now()) as "formerSecretsUntil", (
    select max(x.created_at) from secrets x
     where x.shop_id = s.shop_id and x.subscription_id = s.id and x.expires_at is null) as "newestSecretAt"`;

/** Returns all subscriptions of a shop, by ascending id. */
export async function listSubscriptions(db: Queryable, shopId: bigint): Promise<Subscription[]> {
  const { rows } = await db.query<Subscription>(
    `select ${COLUMNS} from subscriptions s join endpoints e on e.shop_id = s.shop_id and e.id = s.endpoint_id
      where s.shop_id = $1 and s.deleted_at is null order by s.id`,
    [shopId],
  );
  return rows;
}

/** Reads a subscription. @throws DomainError NOT_FOUND. */
export async function getSubscription(
  db: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<Subscription> {
  const { rows } = await db.query<Subscription>(
    `select ${COLUMNS} from subscriptions s join endpoints e on e.shop_id = s.shop_id and e.id = s.endpoint_id
      where s.shop_id = $1 and s.id = $2 and s.deleted_at is null`,
    [shopId, id],
  );
  const [found] = rows;
  if (!found) throw subscriptionNotFound(id);
  return found;
}

interface NewSubscription {
  readonly fields: SubscriptionFields;
  /** Offset of the retry clock. */
  readonly offsetMs: number;
  readonly limitedDomain: LimitedDomain;
  readonly keyring: Keyring;
  readonly use?: KeyUse | undefined;
}

/**
 * Stores a new subscription with a secret, once for each idempotency key. A repeat returns both in their current state,
 * and the ids of subscriptions that are equal to this one.
 *
 * @throws DomainError RESOURCE_EXHAUSTED at the limit of the shop or of the host; IDEMPOTENCY_CONFLICT; NOT_FOUND for a
 *   repeat, when the subscription was deleted.
 */
export function createSubscription(
  pool: pg.Pool,
  shopId: bigint,
  o: NewSubscription,
): Promise<{ subscription: Subscription; secret: Secret; equal: bigint[] }> {
  return inTransaction(pool, async (tx) => {
    const { id } = await oncePerKey(tx, o.use, () => insertSubscription(tx, shopId, o));
    const subscription = await getSubscription(tx, shopId, id);
    const owner = { shopId, subscriptionId: id };
    const secret = await SECRETS.earlier(tx, owner, { keyring: o.keyring });
    return { subscription, secret, equal: await equalSubscriptions(tx, owner) };
  });
}

async function insertSubscription(
  tx: Queryable,
  shopId: bigint,
  o: NewSubscription,
): Promise<bigint> {
  const { topic, trigger, url, status = 'active', description } = o.fields;
  await lockQuota(tx, shopId);
  await requireCapacity(tx, shopId);
  if (status === 'active') {
    await requireCapacityAtDomain(tx, { shopId, topic, trigger, url }, o.limitedDomain);
  }
  const endpointId = await endpointOf(tx, shopId, url);
  const result = await tx.query<{ id: bigint }>(
    `insert into subscriptions (shop_id, topic, trigger, endpoint_id, status, inactive_since, description)
       values ($1, $2, $3, $4, $5, case when $5 = 'inactive' then now() + $6 * interval '1 ms' end, $7)
       returning id`,
    [shopId, topic, trigger, endpointId, status, o.offsetMs, description],
  );
  const { id } = onlyRow(result);
  await addQueue(tx, { shopId, subscriptionId: id });
  await SECRETS.add(tx, { shopId, subscriptionId: id }, o.keyring);
  return id;
}

/**
 * Changes a subscription. Waiting deliveries are sent to the new address. Deliveries of an inactive subscription are
 * held until it is active again. A new topic or trigger applies to later events. It writes one row for the queue,
 * whatever the length of the queue is. A repeat with the same idempotency key has no effect.
 *
 * @param o.offsetMs offset of the retry clock.
 * @returns the subscription, the ids of those that are equal to it now, and its values before the change. A repeat
 *   returns no values.
 * @throws DomainError NOT_FOUND; REVISION_CONFLICT; RESOURCE_EXHAUSTED at the limit of its host, unless the change keeps
 *   host and status.
 */
export function updateSubscription(
  pool: pg.Pool,
  target: { shopId: bigint; id: bigint },
  o: {
    readonly fields: SubscriptionChange;
    /** What the values that change must be now; absent: anything. */
    readonly expected?: SubscriptionChange | undefined;
    readonly offsetMs: number;
    readonly limitedDomain: LimitedDomain;
    readonly use?: KeyUse | undefined;
  },
): Promise<Updated> {
  const { shopId, id } = target;
  const { url } = o.fields;
  return inTransaction(pool, async (tx) => {
    const isFirst = await claimKey(tx, o.use, id);
    // This lock must come before the lock of the subscription, as everywhere.
    await lockQuota(tx, shopId);
    const before = await lockSubscription(tx, shopId, id);
    if (!isFirst) return readUpdated(tx, target);
    requireExpected(before, o.fields, o.expected);
    await requireCapacityFor(tx, target, { ...o, before });
    // This lock must come before the lock of the endpoint. Otherwise a transaction that waits for the queue would block
    // the recording of results.
    await lockQueue(tx, { shopId, subscriptionId: id });
    const endpointId = url === undefined ? before.endpointId : await endpointOf(tx, shopId, url);
    const status = o.fields.status ?? before.status;
    const isActivated = status === 'active' && before.status === 'inactive';
    await tx.query(
      `update subscriptions
          set topic = coalesce($3, topic), trigger = coalesce($4, trigger), endpoint_id = $5, status = $6,
              description = coalesce($9, description), updated_at = now(),
              inactive_reason = case when status = $6 then inactive_reason else '' end,
              inactive_since = case when $6 = 'active' then null
                                    else coalesce(inactive_since, now() + $8 * interval '1 ms') end,
              failures = case when $7 then 0 else failures end,
              failing_since = case when $7 then null else failing_since end,
              warned_percent = case when $7 then 0 else warned_percent end,
              health_since = case when $7 then now() else health_since end
        where shop_id = $1 and id = $2`,
      [
        shopId,
        id,
        o.fields.topic,
        o.fields.trigger,
        endpointId,
        status,
        // After a new address, or an activation by a user, the subscription counts as having no failures, and its
        // health begins again.
        endpointId !== before.endpointId || isActivated,
        o.offsetMs,
        o.fields.description,
      ],
    );
    const inactiveSince = isActivated ? before.inactiveSince : null;
    await changeQueue(tx, { shopId, subscriptionId: id }, { inactiveSince, offsetMs: o.offsetMs });
    return { ...(await readUpdated(tx, target)), previous: before };
  });
}

interface Updated {
  readonly subscription: Subscription;
  readonly equal: bigint[];
  readonly previous?: ChosenValues;
}

async function readUpdated(
  tx: Queryable,
  { shopId, id }: { shopId: bigint; id: bigint },
): Promise<Updated> {
  return {
    subscription: await getSubscription(tx, shopId, id),
    equal: await equalSubscriptions(tx, { shopId, subscriptionId: id }),
  };
}

/**
 * Deletes a subscription, its secrets and its description. Its waiting deliveries are not sent. Its log is kept. Returns
 * its last values.
 *
 * @throws DomainError NOT_FOUND.
 */
export function deleteSubscription(
  pool: pg.Pool,
  shopId: bigint,
  id: bigint,
): Promise<ChosenValues> {
  return inTransaction(pool, async (tx) => {
    const before = await lockSubscription(tx, shopId, id);
    await tx.query(
      `update subscriptions set deleted_at = now(), updated_at = now(), description = '' where shop_id = $1 and id = $2`,
      [shopId, id],
    );
    await tx.query('delete from secrets where shop_id = $1 and subscription_id = $2', [shopId, id]);
    await closeQueue(tx, { shopId, subscriptionId: id });
    return before;
  });
}

/** A subscription that cannot change until the transaction that locked it ends. */
export interface LockedSubscription {
  readonly topic: string;
  readonly trigger: string;
  readonly isActive: boolean;
}

/**
 * Locks the subscription until the transaction ends. A change or deletion waits for this lock; other transactions with
 * the same lock do not. Returns undefined when the subscription does not exist.
 */
export async function lockSubscriptionShared(
  tx: Queryable,
  of: QueueRef,
): Promise<LockedSubscription | undefined> {
  const { rows } = await tx.query<LockedSubscription>(
    `select topic, trigger, status = 'active' as "isActive" from subscriptions
      where shop_id = $1 and id = $2 and deleted_at is null for share`,
    [of.shopId, of.subscriptionId],
  );
  return rows[0];
}

interface LockedRow extends ChosenValues {
  readonly endpointId: bigint;
  readonly inactiveSince: Date | null;
}

/**
 * Locks the row of the subscription. The recording of results locks the same row, so the two never run at the same
 * time. Fan-out locks only the queue. The statement with the lock must not join: after it has waited, PostgreSQL would
 * compare the new row of the subscription with the endpoint of the old row, and find nothing.
 *
 * @throws DomainError NOT_FOUND.
 */
export async function lockSubscription(
  tx: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<LockedRow> {
  const { rows } = await tx.query<Omit<LockedRow, 'url'>>(
    `select s.topic, s.trigger, s.status, s.description, s.endpoint_id as "endpointId",
            s.inactive_since as "inactiveSince"
       from subscriptions s
      where s.shop_id = $1 and s.id = $2 and s.deleted_at is null for update`,
    [shopId, id],
  );
  const [row] = rows;
  if (!row) throw subscriptionNotFound(id);
  const endpoint = await tx.query<{ url: string }>(
    'select url from endpoints where shop_id = $1 and id = $2',
    [shopId, row.endpointId],
  );
  return { ...row, ...onlyRow(endpoint) };
}

/** Returns the id of the endpoint of a URL. Creates a missing endpoint. */
async function endpointOf(tx: Queryable, shopId: bigint, url: string): Promise<bigint> {
  const hash = createHash('sha256').update(url).digest();
  // The update changes nothing. Without it, `returning` would have no row for an endpoint that already exists.
  const result = await tx.query<{ id: bigint }>(
    `insert into endpoints (shop_id, url, url_sha256) values ($1, $2, $3)
     on conflict (shop_id, url_sha256) do update set url = excluded.url
     returning id`,
    [shopId, url, hash],
  );
  return onlyRow(result).id;
}

/**
 * Returns the ids of the shop's other subscriptions with the same address, topic and trigger, ascending. Equal
 * subscriptions are allowed: each sends every event, with a `webhook-id` of its own. But usually somebody created one
 * twice by mistake.
 */
async function equalSubscriptions(
  db: Queryable,
  { shopId, subscriptionId }: QueueRef,
): Promise<bigint[]> {
  const { rows } = await db.query<{ id: bigint }>(
    `select o.id from subscriptions s
       join subscriptions o on o.shop_id = s.shop_id and o.endpoint_id = s.endpoint_id
        and o.topic = s.topic and o.trigger = s.trigger and o.id <> s.id and o.deleted_at is null
      where s.shop_id = $1 and s.id = $2
      order by o.id`,
    [shopId, subscriptionId],
  );
  return rows.map(({ id }) => id);
}
