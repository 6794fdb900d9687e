import type pg from 'pg';
import { stateForbids } from '../../platform/errors.ts';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import { HAS_BODY, requeue } from '../delivery/queue/requeue.ts';
import { subscriptionNotFound } from '../subscriptions/subscription.ts';
import { deliveryNotFound, parseWebhookId } from './delivery.ts';
import { getDelivery } from './get.ts';
import type { LoggedDelivery } from './rows.ts';

/**
 * Queues a finished delivery again. It gets the whole retry schedule. It keeps its `webhook-id` and bytes, and is sent
 * to the current address of the subscription. It is held when the subscription is inactive.
 *
 * @param o.subscriptionId the subscription of the delivery; it must exist. 0 allows any subscription.
 * @param o.key idempotency key. A repeated call returns the delivery of the first call in its current state.
 * @param o.offsetMs offset of the retry clock.
 * @throws DomainError NOT_FOUND; FAILED_PRECONDITION when the delivery already waits, its payload is gone, or its
 *   subscription was deleted.
 */
export function replayDelivery(
  pool: pg.Pool,
  o: {
    shopId: bigint;
    webhookId: string;
    subscriptionId: bigint;
    key: string | undefined;
    offsetMs: number;
  },
): Promise<LoggedDelivery> {
  const id = parseWebhookId(o.webhookId);
  if (id === undefined) throw deliveryNotFound(o.webhookId);
  const { shopId, key, offsetMs } = o;
  return inTransaction(pool, async (tx) => {
    const found = await readForReplay(tx, shopId, id);
    const isAnother = o.subscriptionId !== 0n && found?.subscriptionId !== o.subscriptionId;
    if (!found || isAnother) throw deliveryNotFound(o.webhookId);
    if (found.isDeleted && o.subscriptionId !== 0n) throw subscriptionNotFound(o.subscriptionId);
    requireReplayable(found, key);
    const started = await requeue(tx, { shopId, ids: [id], offsetMs, key });
    // Another transaction was first: an earlier try of this call, another replay, or a redaction.
    if (started.length === 0) requireReplayable(await readForReplay(tx, shopId, id), key);
    return getDelivery(tx, { shopId, id, withBody: false });
  });
}

interface Replayable {
  readonly subscriptionId: bigint;
  readonly isUnfinished: boolean;
  readonly isDeleted: boolean;
  readonly hasBody: boolean;
  readonly replayKey: string | null;
}

/** Reads the delivery. First locks its subscription, which then does not change before the commit. */
async function readForReplay(
  tx: Queryable,
  shopId: bigint,
  id: string,
): Promise<Replayable | undefined> {
  await tx.query(
    `select from subscriptions s
      where s.shop_id = $1 and s.id = (select subscription_id from deliveries where shop_id = $1 and id = $2)
        for share`,
    [shopId, id],
  );
  const { rows } = await tx.query<Replayable>(
    `select d.subscription_id as "subscriptionId", d.ended is null as "isUnfinished",
            s.deleted_at is not null as "isDeleted", ${HAS_BODY} is true as "hasBody",
            d.replay_key as "replayKey"
       from deliveries d
       join subscriptions s on s.shop_id = d.shop_id and s.id = d.subscription_id
       join payloads p on p.shop_id = d.shop_id and p.id = d.payload_id
      where d.shop_id = $1 and d.id = $2`,
    [shopId, id],
  );
  return rows[0];
}

function requireReplayable(found: Replayable | undefined, key: string | undefined): void {
  if (key !== undefined && found?.replayKey === key) return;
  if (found?.isDeleted) throw stateForbids('the subscription of this delivery was deleted');
  if (found?.isUnfinished) throw stateForbids('the delivery is waiting already');
  if (!found?.hasBody) throw stateForbids('the payload of this delivery is gone');
}
