import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import { ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { CustomerRedactedSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { RedactCustomerRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { type Sql, sql, unnamed } from '../../platform/postgres/sql.ts';
import { type Loop, startLoop } from '../../platform/process/worker.ts';
import { systemActor } from '../../platform/security/identity.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import { callerShape, parseInput, requiredText } from '../../platform/values/input.ts';
import { endStatusLinks } from '../status-links.ts';
import type { DetailEvent } from '../store/append-events.ts';
import { fittingIds } from '../store/fitting.ts';
import type { Changer, ReturnStore } from '../store/return-store.ts';
import { changeSnapshot } from '../store/snapshot-store.ts';

/**
 * Maximum number of returns in one transaction, because all of them are in memory. A transaction has fewer when they
 * are large.
 */
const BATCH = 50;

interface RedactionDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
}

const redaction = z.object({ ...callerShape, email: requiredText(320) });

/** Whose data a redaction removes: that of one e-mail address, of some orders, or of everybody. */
type Redacted =
  | { readonly email: string }
  /** The orders, by the provider's ids. */
  | { readonly providerOrderIds: readonly bigint[] }
  | 'everybody';

/**
 * Removes the names, address, e-mail address, comments and uploads of one shopper from all returns, and from their label
 * requests and stored snapshots. `redactReturns` of webhooks does the same for what it keeps. Safe to repeat: a call
 * continues where an interrupted call stopped.
 *
 * Each return gets an event of its own. It has the same key as the other events of the return, so that no earlier event
 * arrives after it.
 *
 * @throws DomainError INVALID_ARGUMENT.
 */
export async function redactCustomer(
  deps: RedactionDeps,
  request: RedactCustomerRequest,
): Promise<{ returns: number; uploads: number }> {
  const input = parseInput(redaction, request);
  const total = { returns: 0, uploads: 0 };
  for (;;) {
    const batch = await redactBatch(deps, input, { email: input.email });
    if (batch.returns === 0) return total;
    total.returns += batch.returns;
    total.uploads += batch.uploads;
  }
}

/** Redacts up to 50 returns in one transaction. In the result, `returns` is 0 when there are no more. */
async function redactBatch(
  { pool, store }: RedactionDeps,
  by: Changer,
  whose: Redacted,
): Promise<{ returns: number; uploads: number }> {
  const ids = await returnsOf(pool, by.shopId, whose);
  const uploads = ids.length === 0 ? 0 : await redact(store, by, ids);
  return { returns: ids.length, uploads };
}

async function returnsOf(
  db: Queryable,
  shopId: bigint,
  whose: Redacted,
): Promise<readonly bigint[]> {
  const { rows } = await db.query<{ id: bigint }>(
    unnamed(sql`
select id from returns r where shop_id = ${shopId} and ${isOf(whose)} order by id limit ${BATCH}`),
  );
  return fittingIds(
    db,
    shopId,
    rows.map((row) => row.id),
  );
}

function isOf(whose: Redacted): Sql {
  if (whose === 'everybody') return sql`redacted_at is null`;
  if ('email' in whose)
    return sql`lower(normal_form(customer_email)) = lower(normal_form(${whose.email}))`;
  return sql`redacted_at is null and order_id in (
    select o.id from orders o
     where o.shop_id = r.shop_id and o.provider_order_id = any(${whose.providerOrderIds}::bigint[]))`;
}

async function redact(
  store: ReturnStore,
  by: Changer,
  returnIds: readonly bigint[],
): Promise<number> {
  const { shopId, actor } = by;
  const changed = await store.changeMany({ shopId, actor, returnIds }, async (tx) => {
    const uploads = await clear(tx, shopId, returnIds);
    await clearSnapshots(tx, shopId, returnIds);
    const events = returnIds.map((returnId): DetailEvent => {
      const value = create(CustomerRedactedSchema, { returnIds: [returnId] });
      return {
        trigger: 'customer.redacted',
        returnId,
        detail: { case: 'customerRedacted', value },
      };
    });
    const text = "The customer's data was removed";
    const timeline = returnIds.map((returnId) => ({ returnId, kind: 'customer.redacted', text }));
    return { value: uploads, events, timeline };
  });
  return changed.value;
}

async function clear(tx: Queryable, shopId: bigint, returnIds: readonly bigint[]): Promise<number> {
  await tx.query(
    `update returns
        set customer_email = null, customer_first_name = null, customer_last_name = null,
            customer_address = null, redacted_at = now()
      where shop_id = $1 and id = any($2::bigint[])`,
    [shopId, returnIds],
  );
  await endStatusLinks(tx, shopId, returnIds);
  await tx.query(
    `update label_requests set content = content - 'origin'
      where shop_id = $1 and return_id = any($2::bigint[]) and content is not null`,
    [shopId, returnIds],
  );
  // The shopper wrote them.
  await tx.query(
    `delete from timeline
      where shop_id = $1 and return_id = any($2::bigint[]) and kind = 'return.commented'`,
    [shopId, returnIds],
  );
  const removed = await tx.query(
    'delete from uploads where shop_id = $1 and return_id = any($2::bigint[])',
    [shopId, returnIds],
  );
  return removed.rowCount ?? 0;
}

interface SnapshotKey {
  readonly return_id: bigint;
  readonly revision: bigint;
}

/** Redacts the stored snapshots, one after another, because a return may have many large ones. */
async function clearSnapshots(
  tx: Queryable,
  shopId: bigint,
  returnIds: readonly bigint[],
): Promise<void> {
  const { rows } = await tx.query<SnapshotKey>(
    'select return_id, revision from snapshots where shop_id = $1 and return_id = any($2::bigint[])',
    [shopId, returnIds],
  );
  for (const { return_id: returnId, revision } of rows) {
    // Has no effect when the purge has deleted the snapshot in the meantime.
    await changeSnapshot(tx, { shopId, returnId, revision }, (snapshot) => {
      delete snapshot.customer;
      for (const line of snapshot.lineItems) line.uploads = [];
    });
  }
}

/** How often a process searches for redactions of processes that ended. Milliseconds. */
const EVERY_MS = 60_000;
/** Maximum number of batches in one step. So a stop does not wait long, and a claim does not expire during a step. */
const BATCHES = 20;
/** After this time another process may start the redaction again. It is longer than a step. Minutes. */
const CLAIM_MINUTES = 10;

const ACTOR = create(ActorSchema, systemActor('shopify'));

/**
 * Starts the job that does the redactions which Shopify requested. A redaction is a row until it is complete, so a
 * crash does not lose it: after ten minutes another process continues. Two processes may do the same redaction at the
 * same time without harm.
 */
export function startRedactions(o: RedactionDeps & { readonly logger: Logger }): Loop {
  return startLoop({
    name: 'shopify: redactions',
    idleMs: EVERY_MS,
    logger: o.logger,
    step: async (signal) => ((await redactNext(o, signal)) ? 'again' : 'idle'),
  });
}

interface Redaction {
  readonly id: bigint;
  readonly shopId: bigint;
  readonly email: string | null;
  readonly orderIds: readonly bigint[] | null;
}

/** Does the next redaction, or a part of a large one. Returns false when there is none. */
export async function redactNext(
  o: RedactionDeps & { readonly logger: Logger },
  signal: AbortSignal,
): Promise<boolean> {
  const { pool, logger } = o;
  const redaction = await claim(pool);
  if (!redaction) return false;
  const { id, shopId } = redaction;
  let left = BATCHES;
  for (const whose of selections(redaction)) {
    for (;;) {
      if (signal.aborted || left === 0) {
        await pool.query('update shopify_redactions set begun_at = null where id = $1', [id]);
        return true;
      }
      const { returns } = await redactBatch(o, { shopId, actor: ACTOR }, whose);
      if (returns === 0) break;
      left -= 1;
    }
  }
  await pool.query('delete from shopify_redactions where id = $1', [id]);
  logger.info({ shop: String(shopId) }, 'shopify: redaction complete');
  return true;
}

async function claim(db: Queryable): Promise<Redaction | undefined> {
  const { rows } = await db.query<Redaction>(
    `update shopify_redactions set begun_at = now()
      where id = (
        select id from shopify_redactions
         where begun_at is null or begun_at < now() - make_interval(mins => $1)
         order by id limit 1 for update skip locked)
     returning id, shop_id as "shopId", email, order_ids as "orderIds"`,
    [CLAIM_MINUTES],
  );
  return rows[0];
}

function selections({ email, orderIds }: Redaction): Redacted[] {
  if (email === null && orderIds === null) return ['everybody'];
  return [
    ...(email ? [{ email }] : []),
    ...(orderIds && orderIds.length > 0 ? [{ providerOrderIds: orderIds }] : []),
  ];
}
