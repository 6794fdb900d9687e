import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { withLease } from '../../platform/leases/leases.ts';
import { isOutage } from '../../platform/postgres/outage.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { startLoop, type Worker } from '../../platform/process/worker.ts';
import { systemActor } from '../../platform/security/identity.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import { KEPT } from '../instant-refunds/instant-refunds-store.ts';
import { cancelOpenLabelRequest } from '../labels/label-requests.ts';
import { MOVING } from '../labels/labels.ts';
import { Return } from '../return.ts';
import type { ReturnStore } from '../store/return-store.ts';

/** Pause between two searches for overdue returns. Milliseconds. */
const SWEEP_MS = 60_000;
const LEASE_MS = 30_000;
/** Maximum number of returns in one query. */
const BATCH = 100;

const EXPIRY_ACTOR = create(ActorSchema, systemActor('expiry'));

export interface ExpiryDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly logger: Logger;
}

/** Starts the expiry job. Every minute it expires overdue returns of all shops. It runs in one process at a time. */
export function startExpiry(o: ExpiryDeps): Worker {
  const owner = randomUUID();
  return startLoop({
    name: 'expiry',
    idleMs: SWEEP_MS,
    logger: o.logger,
    step: async (signal) => {
      await withLease({
        ...o,
        name: 'expiry',
        owner,
        ttlMs: LEASE_MS,
        signal,
        work: async (leased) => {
          const expired = await sweepExpired(o, { signal: leased });
          if (expired > 0) o.logger.info({ expired }, 'returns expired');
        },
      });
      return 'idle';
    },
  });
}

/**
 * Expires overdue returns of one shop, or of all shops. A return is overdue when all of this is true:
 *
 * - it is open or in review, and not queued for processing;
 * - its first label is not used, and is older than the shop's number of days (28 by default);
 * - no parcel has moved, and no goods have arrived;
 * - it has no open instant refund, and the shopper keeps none;
 * - no failed run of processing made an effect, or sent a request whose outcome is unknown.
 *
 * A return without a label never expires. An expired return opens again when its parcel moves or its goods arrive, see
 * `reopening` in `returnable.ts`.
 *
 * The clock of the database decides twice: in the search, and again under the lock of the return. Each return has its
 * own transaction. It publishes `return.updated`, and `label.request.cancelled` for an open label request. A return
 * that cannot be expired is logged, and tried again after a minute. An outage stops the search.
 *
 * @returns the number of returns that expired.
 */
export async function sweepExpired(
  deps: ExpiryDeps,
  o: { readonly shopId?: bigint; readonly signal?: AbortSignal },
): Promise<number> {
  let expired = 0;
  let after: Overdue = { shop_id: 0n, id: 0n };
  for (;;) {
    const found = await overdueReturns(deps.pool, { ...o, after });
    for (const overdue of found) {
      if (o.signal?.aborted) return expired;
      if (await expireOrLog(deps, overdue)) expired += 1;
      after = overdue;
    }
    if (found.length < BATCH) return expired;
  }
}

interface Overdue {
  readonly shop_id: bigint;
  readonly id: bigint;
}

const OVERDUE = `
  r.state in ('open', 'review') and not r.processing
  and first.status in ('new', 'pre_transit')
  and first.created_at + make_interval(days => s.expiry_days) <= now()
  and not exists (
    select from labels moved
    where moved.shop_id = r.shop_id and moved.return_id = r.id and moved.status in (${MOVING}))
  and not exists (
    select from return_lines l
    where l.shop_id = r.shop_id and l.return_id = r.id and l.returned_at is not null)
  and not exists (
    select from instant_refunds c
    where c.shop_id = r.shop_id and c.return_id = r.id and c.state in ('open', ${KEPT}))
  and not exists (
    select from processing_outcomes o
    where o.shop_id = r.shop_id and o.return_id = r.id
      and coalesce(o.done_at, o.asked_at) is not null)`;

const FROM = `
from returns r
join settings s on s.shop_id = r.shop_id
cross join lateral (
  select status, created_at from labels
  where labels.shop_id = r.shop_id and labels.return_id = r.id
  order by created_at, id limit 1
) first`;

async function overdueReturns(
  db: Queryable,
  o: { readonly shopId?: bigint; readonly after: Overdue },
): Promise<Overdue[]> {
  const { rows } = await db.query<Overdue>(
    `select r.shop_id, r.id ${FROM}
     where ${OVERDUE} and ($1::bigint is null or r.shop_id = $1) and (r.shop_id, r.id) > ($2, $3)
     order by r.shop_id, r.id limit $4`,
    [o.shopId ?? null, o.after.shop_id, o.after.id, BATCH],
  );
  return rows;
}

async function isOverdue(tx: Queryable, one: Overdue): Promise<boolean> {
  const { rowCount } = await tx.query(
    `select ${FROM} where ${OVERDUE} and r.shop_id = $1 and r.id = $2`,
    [one.shop_id, one.id],
  );
  return rowCount === 1;
}

/** Expires one return. Logs an error of it, so that the other returns still expire. */
async function expireOrLog({ store, logger }: ExpiryDeps, one: Overdue): Promise<boolean> {
  try {
    return await expire(store, one);
  } catch (err) {
    if (isOutage(err)) throw err;
    const logFields = { shop: String(one.shop_id), return: String(one.id) };
    logger.error({ err, ...logFields }, 'return not expired, retrying in a minute');
    return false;
  }
}

async function expire(store: ReturnStore, one: Overdue): Promise<boolean> {
  const target = { shopId: one.shop_id, returnId: one.id, actor: EXPIRY_ACTOR };
  const { value } = await store.change(target, async (tx, current) => {
    // Check again, because the return may have changed after the search.
    if (!(await isOverdue(tx, one))) return { value: false };
    const expired = new Return(current).expire();
    const text = 'The return expired: its label was not used in time';
    return {
      value: true,
      stateChanges: [expired],
      events: await cancelOpenLabelRequest(tx, target),
      timeline: [{ returnId: one.id, kind: 'return.expired', text }],
    };
  });
  return value;
}
