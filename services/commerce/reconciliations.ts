import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type { Meter, ObservableCallback } from '@opentelemetry/api';
import type pg from 'pg';
import { z } from 'zod';
import type {
  ReconcileRequest,
  ReconcileResponseSchema,
} from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { withLease } from '../platform/leases/leases.ts';
import type { Queryable } from '../platform/postgres/postgres.ts';
import { sharedWithTimeout } from '../platform/postgres/shared-with-timeout.ts';
import { startLoop, type Worker } from '../platform/process/worker.ts';
import type { Logger } from '../platform/telemetry/log.ts';
import { DomainError } from '../platform/values/errors.ts';
import { callerShape, parseInput } from '../platform/values/input.ts';
import { notConnected } from './connections.ts';
import { CommerceFailure, effectKindText } from './provider.ts';
import type { Providers } from './providers.ts';
import {
  beginTry,
  type Difference,
  type Part,
  type Reconciliation,
  reconcile,
  type ShopDay,
  saveProgress,
} from './reconcile.ts';

/** How often the job searches for days to compare. Milliseconds. */
const EVERY_MS = 600_000;
const LEASE_MS = 60_000;
/** Time from the end of a day to its comparison. By then the requests of the day have been answered. Milliseconds. */
const AFTER_MS = 7_200_000;
/** Number of past days that the job compares and that the metrics count. */
const WATCHED_DAYS = 30;
/** How long results are kept. Days. */
const KEEP_DAYS = 400;
/** Maximum number of shops in one round of the job. */
const BATCH = 1_000;
/** Time limit of one try to compare a day of a shop, with the provider's list. Milliseconds. */
const TRY_LIMIT_MS = 300_000;
/**
 * How long a try searches for effects that the provider did not list. Then the job compares other shops, and the next
 * try continues. Milliseconds.
 */
const SEARCH_MS = 60_000;

export interface ReconcileDeps {
  readonly pool: pg.Pool;
  readonly providers: Providers;
}

const isDay = (text: string): boolean =>
  /^\d{4}-\d{2}-\d{2}$/.test(text) &&
  !Number.isNaN(Date.parse(text)) &&
  new Date(text).toISOString().startsWith(text);

const reconcileInput = z.object({
  ...callerShape,
  day: z
    .string()
    .refine(isDay, 'must be a day such as 2026-11-20')
    .refine((day) => new Date(day) <= new Date(), 'must not be later than today'),
});

/**
 * Compares one day of a shop and stores the result.
 *
 * @throws DomainError INVALID_ARGUMENT; COMMERCE_CONNECTION_NOT_FOUND; COMMERCE_FAILED when the provider does not
 *   answer.
 */
export async function reconcileOnRequest(
  deps: ReconcileDeps,
  request: ReconcileRequest,
): Promise<MessageInitShape<typeof ReconcileResponseSchema>> {
  const { shopId, day } = parseInput(reconcileInput, request);
  const result = await reconcileDay(deps, { shopId, day }).catch(explained);
  if (!result) throw notConnected();
  const { compared, listed, total } = result;
  return { compared, listed, total, differences: result.differences.map(differenceMessage) };
}

function explained(error: unknown): never {
  if (!(error instanceof CommerceFailure)) throw error;
  const { COMMERCE_FAILED } = ErrorReason;
  throw new DomainError(Code.FailedPrecondition, COMMERCE_FAILED, error.message, { cause: error });
}

const DAY_MS = 86_400_000;

/** Compares a day, or continues to. Stores the result when it is complete. Undefined when the shop is not connected. */
async function reconcileDay(
  { pool, providers }: ReconcileDeps,
  { shopId, day }: ShopDay,
  part?: Part,
): Promise<Reconciliation | undefined> {
  const connected = await providers.connected(pool, shopId);
  if (!connected) return undefined;
  const start = new Date(day);
  const to = new Date(start.getTime() + DAY_MS);
  // Effects before the connection do not count, because another provider made them.
  const from = connected.since > start ? connected.since : start;
  const result = await reconcile(pool, connected.commerce, { shopId, from, to, ...part });
  // A day that is not over is not stored, so that it is compared again when it is over.
  if (!result.isComplete || Date.now() < to.getTime() + AFTER_MS) return result;
  await pool.query(
    `insert into commerce_reconciliations (shop_id, day, compared, differences)
     values ($1, $2::date, $3, $4)
     on conflict (shop_id, day) do update
     set finished_at = now(), compared = excluded.compared, differences = excluded.differences`,
    [shopId, day, result.compared, result.total],
  );
  return result;
}

/**
 * Starts the job that compares every day of every connected shop with its provider, two hours after the end of the day.
 * It runs in one process at a time. When a provider does not answer, the job tries again ten minutes later. A day that
 * takes long is compared in several tries. Two metrics show the differences, and the days that are not compared yet.
 */
export function startReconciliations(
  o: ReconcileDeps & { readonly logger: Logger; readonly meter: Meter },
): Worker {
  const owner = randomUUID();
  const metrics = measure(o.pool, o.meter);
  const loop = startLoop({
    name: 'reconciliation',
    idleMs: EVERY_MS,
    delayMs: EVERY_MS,
    logger: o.logger,
    step: async (signal) => {
      await withLease({
        pool: o.pool,
        logger: o.logger,
        name: 'reconciliation',
        owner,
        ttlMs: LEASE_MS,
        signal,
        work: (leased) => reconcileDueDays(o, leased),
      });
      return 'idle';
    },
  });
  return {
    async stop() {
      metrics.stop();
      await loop.stop();
    },
  };
}

interface JobDeps extends ReconcileDeps {
  readonly logger: Logger;
  /** Time limit of a search; a minute by default. Milliseconds. */
  readonly searchMs?: number;
  /** Pause before another try, after one that failed; ten minutes by default. Milliseconds. */
  readonly retryMs?: number;
}

/**
 * Compares the days that are due. Each round does one try for each shop, for its oldest day that is due. Shops whose
 * last try is oldest come first. A shop whose provider does not answer is left out for some time. So neither many
 * effects nor an unavailable provider of one shop delays other shops for long.
 */
export async function reconcileDueDays(o: JobDeps, signal: AbortSignal): Promise<void> {
  await o.pool.query(`delete from commerce_reconciliations where day < ${TODAY} - ${KEEP_DAYS}`);
  const failed = new Set<bigint>();
  for (;;) {
    const { rows } = await o.pool.query<ShopDay>(
      `select shop_id as "shopId", min(due.day)::text as day
         from (${NOT_COMPARED}) due left join commerce_comparisons last using (shop_id)
        where shop_id <> all ($1::bigint[]) or last.tried_at < now() - $2 * interval '1 millisecond'
        group by shop_id, last.tried_at order by last.tried_at nulls first limit $3`,
      [[...failed], o.retryMs ?? EVERY_MS, BATCH],
    );
    if (rows.length === 0) return;
    for (const due of rows) {
      if (signal.aborted) return;
      if (await compareDay(o, due, signal)) failed.delete(due.shopId);
      else failed.add(due.shopId);
    }
  }
}

/** Does one try for a day. Returns false when it failed. */
async function compareDay(o: JobDeps, due: ShopDay, signal: AbortSignal): Promise<boolean> {
  const about = { shop: String(due.shopId), day: due.day };
  const progress = await beginTry(o.pool, due);
  try {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(TRY_LIMIT_MS)]);
    const part = { signal: limit, progress, searchMs: o.searchMs ?? SEARCH_MS };
    const result = await continueDay(o, due, part);
    if (!result) return false;
    if (!result.isComplete) {
      o.logger.info({ ...about, searched: progress.searched }, 'effects partly compared');
    } else if (result.total > 0) {
      const fields = { ...about, differences: result.total };
      o.logger.error(fields, 'effects differ from those of the commerce provider');
    }
    return true;
  } catch (err) {
    o.logger.warn({ ...about, err }, 'effects not compared');
    return false;
  }
}

/** Continues to compare a day. Stores the progress even when the try fails. */
async function continueDay(o: ReconcileDeps, due: ShopDay, part: Part) {
  try {
    return await reconcileDay(o, due, part);
  } finally {
    await saveProgress(o.pool, due, part.progress);
  }
}

const TODAY = "(now() at time zone 'utc')::date";

/** SQL: the days of connected shops that are over and not compared. Days before the connection do not count. */
const NOT_COMPARED = `
select c.shop_id, days.day::date as day
  from commerce_connections c
  cross join lateral generate_series(
    greatest((c.connected_at at time zone 'utc')::date,
             ${TODAY} - ${WATCHED_DAYS}),
    ((now() - interval '${AFTER_MS} milliseconds') at time zone 'utc')::date - 1, interval '1 day') as days (day)
 where not exists (select from commerce_reconciliations r
                    where r.shop_id = c.shop_id and r.day = days.day::date)`;

const COUNTS = `
select (select coalesce(sum(differences), 0)::float8 from commerce_reconciliations
         where day >= ${TODAY} - ${WATCHED_DAYS}) as differences,
       (select count(*)::float8 from (${NOT_COMPARED}) due) as "notCompared"`;

function measure(db: Queryable, meter: Meter): { stop(): void } {
  const differences = meter.createObservableGauge('commerce_differences', {
    description:
      'Effects about which a commerce provider and this service do not agree, of the last 30 days.',
  });
  const notCompared = meter.createObservableGauge('commerce_days_not_compared', {
    description: 'Days of connected shops that are not compared with their provider yet.',
  });
  const read = sharedWithTimeout(async () => {
    const { rows } = await db.query<{ differences: number; notCompared: number }>(COUNTS);
    return rows[0];
  });
  const observeDifferences: ObservableCallback = async (result) => {
    const counts = await read();
    if (counts) result.observe(counts.differences);
  };
  const observeNotCompared: ObservableCallback = async (result) => {
    const counts = await read();
    if (counts) result.observe(counts.notCompared);
  };
  differences.addCallback(observeDifferences);
  notCompared.addCallback(observeNotCompared);
  return {
    stop() {
      differences.removeCallback(observeDifferences);
      notCompared.removeCallback(observeNotCompared);
    },
  };
}

function differenceMessage({ problem, kind, key, ours, theirs, providerId }: Difference) {
  const money = { ...(ours && { ours }), ...(theirs && { theirs }) };
  return { problem, kind: effectKindText.fromText(kind), key, providerId, ...money };
}
