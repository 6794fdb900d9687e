import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { type Client, Code, ConnectError } from '@connectrpc/connect';
import type pg from 'pg';
import type {
  AssessmentSchema,
  GradingSchema,
  ReturnsService,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { LONG_TEXT_BYTES } from '../contract/limits.ts';
import { createJobLease } from '../platform/leases/leases.ts';
import { isOutage } from '../platform/postgres/outage.ts';
import type { Queryable } from '../platform/postgres/postgres.ts';
import { type Sql, sql, unnamed } from '../platform/postgres/sql.ts';
import { addedJitter, createBackoff } from '../platform/process/backoff.ts';
import { startLoop, type Worker } from '../platform/process/worker.ts';
import { serviceActor } from '../platform/security/identity.ts';
import type { Logger } from '../platform/telemetry/log.ts';
import { isUnavailable } from '../platform/values/errors.ts';
import { deleteInspections, isTooLarge } from './delete-inspections.ts';
import { conditionOf, dispositionOf, type Inspection, type Kind } from './inspection.ts';
import { COLUMNS, type Row, toInspection } from './rows.ts';
import { EARLIER_SECONDS, type Lines, OWN_CALL_SECONDS } from './store.ts';

export interface HandOverDeps {
  readonly pool: pg.Pool;
  readonly returns: Pick<
    Client<typeof ReturnsService>,
    'checkLineItems' | 'applyAssessments' | 'applyGradings'
  >;
}

/**
 * The actor of dispositions' calls to returns, because only the gateway may name users as actors. Each inspection has
 * its own inspector.
 */
export const DISPOSITIONS = serviceActor('dispositions');

/** Timeout of one call to returns. Thirty line items with the longest texts take about 30 MiB. Milliseconds. */
const TIMEOUT_MS = OWN_CALL_SECONDS * 1_000;

/** Time limit for the inspections of earlier calls. Milliseconds. */
const EARLIER_MS = EARLIER_SECONDS * 1_000;
const POLL_MS = 50;

/** The inspections of one call, as in `Recorded`. */
type OfCall = Readonly<Record<'inspections' | 'created' | 'repeated', readonly Inspection[]>>;

/**
 * Hands over the pending inspections of these line items that are older than those of a call, oldest first. It never
 * hands over only a part of what another running call recorded, because returns stores all findings of a call or none
 * only when it gets them together. It waits for that call instead.
 *
 * @returns the pending ones of `repeated`. Each is the oldest pending inspection of its line item.
 * @throws Error when this takes more than 5 s.
 */
export async function handOverEarlier(
  deps: HandOverDeps,
  o: Lines,
  { inspections, created, repeated }: OfCall,
): Promise<Pending[]> {
  const newest = new Map(inspections.map(({ lineItemId, id }) => [lineItemId, id]));
  const createdIds = new Set(created.map(({ id }) => id));
  const repeatedIds = new Set(repeated.map(({ id }) => id));
  const endsAt = performance.now() + EARLIER_MS;
  for (;;) {
    const oldest = (await findOldestPending(deps.pool, o)).filter(
      ({ id, lineItemId }) => id <= (newest.get(lineItemId) ?? 0n) && !createdIds.has(id),
    );
    const earlier = oldest.filter(({ id }) => !repeatedIds.has(id));
    const next = earlier.length > 0 ? earlier : oldest;
    const mustWait = next.some(({ isPartOfCall }) => isPartOfCall);
    if (!mustWait && earlier.length === 0) return oldest;
    const timeoutMs = endsAt - performance.now();
    if (timeoutMs <= 0) throw new Error('earlier inspections are not handed over yet');
    if (mustWait) await sleep(POLL_MS);
    else await handOverThese(deps, o, earlier, timeoutMs);
  }
}

/**
 * Hands over these inspections in one call, and then deletes their rows in `handovers`. Each must be the oldest pending
 * inspection of its line item. Safe to repeat, because returns ignores inspections that it already has.
 */
export async function handOverThese(
  deps: HandOverDeps,
  o: Pick<Lines, 'shopId' | 'kind'>,
  pending: readonly Inspection[],
  timeoutMs = TIMEOUT_MS,
): Promise<void> {
  if (pending.length === 0) return;
  const limits = { timeoutMs };
  // `withoutReturns`: the response would otherwise have up to thirty whole returns.
  const call = { shopId: o.shopId, actor: DISPOSITIONS, withoutReturns: true };
  if (o.kind === 'assessment') {
    await deps.returns.applyAssessments(
      { ...call, assessments: pending.map(toAssessment) },
      limits,
    );
  } else {
    await deps.returns.applyGradings({ ...call, gradings: pending.map(toGrading) }, limits);
  }
  await deleteHandovers(deps.pool, o, pending);
}

const IDLE_MS = 1_000;

/**
 * Starts the loop that hands over inspections after a crash or an outage. Every process may run it: only one process
 * works on a row at a time, and a repeated handover changes nothing.
 */
export function startHandovers(deps: HandOverDeps, logger: Logger): Worker {
  const heartbeat = HANDOVERS.heartbeat(deps.pool, logger);
  return startLoop({
    name: 'handovers',
    idleMs: IDLE_MS,
    logger,
    step: async () => {
      const due = await claimDue(deps.pool);
      if (!due) return 'idle';
      try {
        const work = () => handOverDue(deps, due, logger);
        await heartbeat.during(due.handovers, { work });
      } catch (error) {
        // If the database is unavailable as well, this statement fails and the lease expires.
        await (isReturnsUnavailable(error) ? undoAttempt : postpone)(deps.pool, due).catch(
          () => {},
        );
        if (isUnavailable(error) || isOutage(error)) throw error;
        // A handover that returns rejected must not delay others. The loop tries it again when it is due.
        logger.error({ err: error, shopId: due.shopId, kind: due.kind }, 'handover rejected');
      }
      return 'again';
    },
  });
}

/**
 * Hands over the pending inspections of due line items, oldest first. Leaves out those that are leased by their call,
 * and later ones of the line item.
 */
async function handOverDue(deps: HandOverDeps, due: Lines, logger: Logger): Promise<void> {
  for (;;) {
    const oldest = await findOldestPending(deps.pool, due);
    const pending = oldest.filter(({ isLeasedByCall }) => !isLeasedByCall);
    if (pending.length === 0) return;
    await handOverOrDelete(deps, due, pending, logger);
  }
}

/**
 * Hands over these inspections. If they would make the details of a return too large, hands them over one by one, and
 * deletes those that do not fit. The calls that recorded those did not succeed. It deletes exactly what returns has
 * rejected, because in the meantime another call may have recorded about the line item.
 */
async function handOverOrDelete(
  deps: HandOverDeps,
  o: Lines,
  pending: readonly Inspection[],
  logger: Logger,
): Promise<void> {
  try {
    await handOverThese(deps, o, pending);
  } catch (error) {
    if (!isTooLarge(error)) throw error;
    const [first, ...rest] = pending;
    if (rest.length > 0) {
      for (const one of pending) await handOverOrDelete(deps, o, [one], logger);
      return;
    }
    await deleteInspections(deps.pool, o, pending);
    const fields = { shopId: o.shopId, kind: o.kind, lineItemId: first?.lineItemId };
    logger.warn(fields, 'inspection deleted: return details would exceed the size limit');
  }
}

/** Whether returns was unavailable. A timeout does not count, because the size of the line item may have caused it. */
function isReturnsUnavailable(error: unknown): boolean {
  return isOutage(error) || (error instanceof ConnectError && error.code === Code.Unavailable);
}

function toAssessment(inspection: Inspection): MessageInitShape<typeof AssessmentSchema> {
  return {
    assessmentId: inspection.id,
    lineItemId: inspection.lineItemId,
    disposition: dispositionOf(inspection),
    images: [...inspection.images],
    actor: inspection.actor,
  };
}

function toGrading(inspection: Inspection): MessageInitShape<typeof GradingSchema> {
  return {
    gradingId: inspection.id,
    lineItemId: inspection.lineItemId,
    condition: conditionOf(inspection),
    actor: inspection.actor,
  };
}

/** Maximum number of inspections in one call. So the message is small enough even with the longest texts. */
const ROUND_MAX = 30;

/** An inspection that returns may not have yet. */
interface Pending extends Inspection {
  /** Whether the call that recorded it still has its lease. All inspections of a call have a common lease. */
  readonly isLeasedByCall: boolean;
  /** Whether it is leased by its call, and other pending inspections of that call are not in the list. */
  readonly isPartOfCall: boolean;
}

type PendingRow = Row & { readonly is_leased_by_call: boolean; readonly is_part_of_call: boolean };

/**
 * Returns the oldest pending inspection of each line item, for at most 30 line items. Reads one line item after
 * another, because PostgreSQL's stored plan of a join may read all inspections of the shop. Finds the others of a
 * call by `due_at`, which has an index. They have the same value as long as the call has its lease.
 */
async function findOldestPending(db: Queryable, o: Lines): Promise<Pending[]> {
  const { rows } = await db.query<PendingRow>({
    name: 'oldest-pending',
    text: `select ${COLUMNS}, h.is_leased_by_call,
            h.is_leased_by_call and count(*) over (partition by h.lease_token) < (
              select count(*) from handovers c where c.due_at = h.due_at and c.lease_token = h.lease_token
            ) as is_part_of_call
       from (
         select distinct on (line_item_id) inspection_id, lease_token, due_at,
                lease_token is not null and attempts = 0 and due_at > now() as is_leased_by_call
           from handovers
          where shop_id = $1 and kind = $2 and line_item_id = any ($3::bigint[])
          order by line_item_id, inspection_id
       ) h
       join lateral (
         select * from inspections where shop_id = $1 and id = h.inspection_id limit 1
       ) i on true
      order by i.id limit $4`,
    values: [o.shopId, o.kind, o.lineItemIds, ROUND_MAX],
  });
  return rows.map((row) => ({
    ...toInspection(row),
    isLeasedByCall: row.is_leased_by_call,
    isPartOfCall: row.is_part_of_call,
  }));
}

/**
 * Deletes handovers that are done, and the long texts, which returns now stores. The conditions are a whole key of each
 * index. With a part of a key, PostgreSQL would also read what was deleted since the last vacuum.
 */
async function deleteHandovers(
  db: Queryable,
  o: Pick<Lines, 'shopId' | 'kind'>,
  done: readonly Inspection[],
): Promise<void> {
  const ids = done.map(({ id }) => id);
  const lineItemIds = done.map(({ lineItemId }) => lineItemId);
  // The commit does not wait for the disk. If a crash loses the deletion, the inspections are handed over again, and
  // returns ignores them.
  await db.query({
    name: 'delete-handovers',
    text: `with deleted as (
             delete from handovers
              where shop_id = $1 and kind = $4 and line_item_id = any ($5::bigint[]) and inspection_id = any ($2::bigint[])
           ), shortened as (
             update inspections
                set note = case when octet_length(note) <= $3 then note end,
                    note_sha256 = case when octet_length(note) > $3
                                       then sha256(convert_to(note, 'UTF8')) end,
                    description = case when octet_length(description) > $3 then '' else description end,
                    description_sha256 = case when octet_length(description) > $3
                                              then sha256(convert_to(description, 'UTF8')) end
              where shop_id = $1 and id = any ($2::bigint[])
                and (octet_length(note) > $3 or octet_length(description) > $3)
           )
           select set_config('synchronous_commit', 'off', true)`,
    values: [o.shopId, ids, LONG_TEXT_BYTES, o.kind, lineItemIds],
  });
}

/** A handover that this process has claimed. */
interface Handover {
  readonly shopId: bigint;
  readonly inspectionId: bigint;
  readonly kind: Kind;
  readonly lineItemId: bigint;
  /** Number of attempts, including the current one. */
  readonly attempts: number;
  readonly token: bigint;
}

/** Length of the lease of a handover. It is longer than the timeout of a call to returns. Milliseconds. */
const LEASE_MS = 15_000;

/**
 * The leases of handovers. After three failed attempts a handover is claimed alone: when returns always rejects it, it
 * does not delay others.
 */
const HANDOVERS = createJobLease<Handover>({
  table: 'handovers',
  key: { shop_id: ({ shopId }) => shopId, inspection_id: ({ inspectionId }) => inspectionId },
  dueAt: 'due_at',
  leaseMs: LEASE_MS,
  tokens: 'lease_tokens',
  isOpen: sql`true`,
  due: (limit) => sql`
    with first as (
      select shop_id, inspection_id, kind, attempts from handovers
       where due_at <= now() order by due_at limit 1 for update skip locked
    )
    select h.shop_id, h.inspection_id from handovers h join first f
        on h.shop_id = f.shop_id and h.kind = f.kind
     where h.inspection_id = f.inspection_id
        or (h.due_at <= now() and h.attempts < 3 and f.attempts < 3)
     order by h.due_at limit ${limit} for update of h skip locked`,
  onClaim: sql`attempts = job.attempts + 1`,
  returning: sql`job.shop_id as "shopId", job.inspection_id as "inspectionId", job.kind,
    job.line_item_id as "lineItemId", job.attempts`,
});

/** The line items whose handovers one claim leased. */
export interface Claimed extends Lines {
  readonly handovers: readonly Handover[];
}

/** Claims the due handovers of one shop that have waited longest. */
export async function claimDue(db: Queryable): Promise<Claimed | undefined> {
  const handovers = await HANDOVERS.claim<Handover>(db, ROUND_MAX);
  const [first] = handovers;
  if (!first) return undefined;
  const lineItemIds = handovers.map(({ lineItemId }) => lineItemId);
  return { shopId: first.shopId, kind: first.kind, lineItemIds, handovers };
}

const BACKOFF = createBackoff({ firstMs: 10_000, longestMs: 320_000, jitter: addedJitter });

/**
 * Sets the time of the next attempt after a failure. Of all handovers of the claim, the one with the fewest attempts
 * decides.
 */
export async function postpone(db: Queryable, claimed: Claimed): Promise<void> {
  const pauseMs = BACKOFF(Math.min(...claimed.handovers.map(({ attempts }) => attempts)));
  await release(db, claimed, sql`due_at = now() + ${pauseMs}::float8 * interval '1 millisecond'`);
}

/**
 * For inspections of the claim that are still pending, does not count the attempt. So after an outage they do not wait
 * for minutes, and are not handed over one by one. Each becomes due at a random time within one to two seconds. If one
 * of them makes returns crash, the others are handed over without it.
 */
export async function undoAttempt(db: Queryable, claimed: Claimed): Promise<void> {
  const dueAt = sql`due_at = now() + (1 + random()) * interval '1 second'`;
  await release(db, claimed, sql`attempts = greatest(attempts - 1, 0), ${dueAt}`);
}

async function release(db: Queryable, { shopId, handovers }: Claimed, set: Sql): Promise<void> {
  const ids = handovers.map(({ inspectionId }) => inspectionId);
  const tokens = handovers.map(({ token }) => token);
  await db.query(
    unnamed(sql`
update handovers set lease_token = null, ${set}
 where shop_id = ${shopId} and inspection_id = any (${ids}::bigint[]) and lease_token = any (${tokens}::bigint[])`),
  );
}
