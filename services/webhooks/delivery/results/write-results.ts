import type pg from 'pg';
import { inTransaction, type Queryable } from '../../../platform/postgres/postgres.ts';
import { named, param, raw, rowsOf, type Sql, sql } from '../../../platform/postgres/sql.ts';
import { dayOf, rangeOfDay } from '../../delivery-id.ts';
import type { EndpointChange } from '../endpoint/health-changes.ts';
import { leaseOf, queueKeyOf } from '../queue/queue-ref.ts';
import type { AttemptResult } from './attempt-result.ts';
import { countFailures } from './count-failures.ts';
import type { Notice } from './deactivate.ts';

export interface WrittenResults {
  /** Results that were not recorded because this process has lost the lease of their shard. */
  readonly stale: readonly AttemptResult[];
  /** Results that were skipped because another transaction has locked their subscriptions. */
  readonly skipped: readonly AttemptResult[];
  /** Deactivations of subscriptions, and warnings. */
  readonly notices: readonly Notice[];
}

/**
 * Records results of attempts and the times of the next attempts, in one statement. If attempts failed, or succeeded
 * for the first time after failures, the same transaction first counts the failures of their subscriptions. A batch
 * with only successes is committed without waiting for the disk. The call may be repeated when the response of a commit
 * was lost.
 *
 * - A result is not recorded when the lease of its shard is lost.
 * - A delivery that was dropped during its attempt stays dropped, unless it was delivered.
 * - A delivery that was replayed during its attempt continues. The attempt is only logged.
 * - A failure of a subscription that another transaction has locked is skipped, because the lock may last long.
 *
 * @param o.offsetMs offset of the retry clock.
 */
export async function writeResults(
  pool: pg.Pool,
  attemptResults: readonly AttemptResult[],
  endpoints: readonly EndpointChange[],
  o: { offsetMs: number },
): Promise<WrittenResults> {
  const toCount = resultsToCount(attemptResults);
  if (toCount.length === 0) {
    // After a crash of the database, deliveries whose results are lost are sent again, like deliveries in flight.
    const stale = await write(pool, attemptResults, endpoints, { ...o, isRelaxed: true });
    return { stale, skipped: [], notices: [] };
  }
  return inTransaction(pool, async (tx) => {
    const values = [leasesOf(attemptResults, endpoints)];
    await tx.query({ name: 'lock-leases', text: LOCK_LEASES, values });
    const { notices, busy } = await countFailures(tx, toCount, o);
    const skipped = toCount.filter(({ due }) => busy.has(queueKeyOf(due)));
    const rest = attemptResults.filter((one) => !skipped.includes(one));
    const stale = await write(tx, rest, endpoints, { ...o, isRelaxed: false });
    return { stale, skipped, notices };
  });
}

/**
 * Returns the results that change the count of failures of their subscription: failures, and the first success after a
 * failure.
 */
function resultsToCount(attemptResults: readonly AttemptResult[]): AttemptResult[] {
  const changesCount = ({ due, sent, ended }: AttemptResult): boolean =>
    sent !== undefined && (ended !== 'delivered' || due.isFailing);
  const failing = new Set(attemptResults.filter(changesCount).map(({ due }) => queueKeyOf(due)));
  if (failing.size === 0) return [];
  return attemptResults.filter(({ due, sent }) => sent && failing.has(queueKeyOf(due)));
}

function leasesOf(
  attemptResults: readonly AttemptResult[],
  endpoints: readonly EndpointChange[],
): string[] {
  const leases = [...attemptResults.map(({ due }) => leaseOf(due)), ...endpoints.map(leaseOf)];
  return [...new Set(leases)];
}

/** Writes the results. Returns those whose lease is lost. */
async function write(
  db: Queryable,
  attemptResults: readonly AttemptResult[],
  endpoints: readonly EndpointChange[],
  o: Pick<Recording, 'offsetMs' | 'isRelaxed'>,
): Promise<AttemptResult[]> {
  const stale: AttemptResult[] = [];
  const days = Map.groupBy(attemptResults, ({ due }) => dayOf(due.id).getTime());
  // All results were skipped. The health of their endpoints is recorded all the same.
  if (days.size === 0 && endpoints.length > 0) days.set(new Date().setUTCHours(0, 0, 0, 0), []);
  let changes = endpoints;
  for (const [day, ofDay] of days) {
    const leases = leasesOf(ofDay, changes);
    const recording = { ...o, leases, attemptResults: ofDay, endpoints: changes };
    stale.push(...(await record(db, new Date(day), recording)));
    changes = [];
  }
  return stale;
}

async function record(db: Queryable, day: Date, recording: Recording): Promise<AttemptResult[]> {
  const { rows } = await db.query<{ name: string; token: bigint }>(recordStatement(day, recording));
  const tokens = new Map(rows.map(({ name, token }) => [name, token]));
  return recording.attemptResults.filter(({ due, token }) => tokens.get(leaseOf(due)) !== token);
}

// Locks are always taken in this order: leases, subscriptions, subscription queues, endpoints, queue, deliveries.
const LOCK_LEASES = `
select from leases where name = any($1::text[]) order by name for share`;

/** The values that one statement writes. */
interface Recording {
  /** Names of the leases for all results and endpoints. */
  readonly leases: readonly string[];
  /** Results of deliveries whose ids are of one day. */
  readonly attemptResults: readonly AttemptResult[];
  readonly endpoints: readonly EndpointChange[];
  /** Offset of the retry clock. */
  readonly offsetMs: number;
  /** Whether the commit may return before the data is on the disk. */
  readonly isRelaxed: boolean;
}

const resultRows = rowsOf<AttemptResult>({
  shop_id: ['bigint', ({ due }) => due.shopId],
  subscription_id: ['bigint', ({ due }) => due.subscriptionId],
  id: ['uuid', ({ due }) => due.id],
  lease: ['text', ({ due }) => leaseOf(due)],
  token: ['bigint', ({ token }) => token],
  attempts: ['integer', ({ due }) => due.attempts],
  ended: ['text', ({ ended }) => ended],
  pause_ms: ['float8', ({ pauseMs }) => pauseMs],
  payload_id: ['uuid', ({ due }) => due.payloadId],
  started_ms: ['float8', ({ sent }) => sent?.result.startedAt.getTime()],
  duration_ms: ['integer', ({ sent }) => sent?.result.durationMs ?? 0],
  dns_ms: ['integer', ({ sent }) => sent?.result.timing.dnsMs],
  connect_ms: ['integer', ({ sent }) => sent?.result.timing.connectMs],
  tls_ms: ['integer', ({ sent }) => sent?.result.timing.tlsMs],
  wait_ms: ['integer', ({ sent }) => sent?.result.timing.waitMs],
  read_ms: ['integer', ({ sent }) => sent?.result.timing.readMs],
  status: ['integer', ({ sent }) => sent?.result.status ?? 0],
  error: ['text', ({ sent }) => sent?.result.error ?? ''],
  url: ['text', ({ due }) => due.url],
  request_headers: ['text', ({ sent }) => sent?.headers ?? ''],
  response_excerpt: ['text', ({ sent }) => sent?.result.excerpt ?? ''],
  response_headers: ['text', ({ sent }) => sent?.result.headers ?? ''],
  round: ['timestamptz', ({ due }) => due.round],
});

const endpointRows = rowsOf<EndpointChange>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  id: ['bigint', ({ endpointId }) => endpointId],
  lease: ['text', leaseOf],
  token: ['bigint', ({ token }) => token],
  flight_cap: ['smallint', ({ health }) => health.maxInFlight],
  failures: ['integer', ({ health }) => health.failures],
  failing_since: ['float8', ({ health }) => health.failingSinceMs],
  opened_at: ['float8', ({ health }) => health.circuit?.openedAtMs],
  held_until: ['float8', ({ health }) => health.circuit?.pausedUntilMs],
  failed: ['text', ({ health }) => health.failed.join()],
});

/**
 * Builds the statement that records results. Its rows are the leases of the results and their present tokens. Its CTE
 * `leased` has these leases, and its CTE `results` those results whose token is the present one.
 *
 * The bounds of the day are constants, so that PostgreSQL plans only one partition of each table. (PostgreSQL 18.4
 * crashes when it prunes partitions while it reads again a row that another transaction changed.) `any(array[…])` is an
 * equality without an order, which prevents a merge join. A merge join would read the whole queue in the order of its
 * key. PostgreSQL would choose it when the statistics say that the table is empty, as they usually do.
 */
function recordStatement(day: Date, o: Recording): pg.QueryConfig {
  const ofDay = piecesOf(day);
  const statement = sql`
with leased as materialized (
  select name, token from leases where name = any(${o.leases}::text[]) order by name for share
), results as materialized (
  select g.* from ${resultRows('g', o.attemptResults)}
    join leased on leased.name = g.lease and leased.token = g.token
), health as (${updateHealth(o.endpoints)}
), removed as (${REMOVE_ENDED}
), moved as (${rescheduleRest(o.offsetMs)}
), finished as (${ofDay.finished}
), logged as (${ofDay.logged}
)
select name, token, case when ${o.isRelaxed}::boolean then set_config('synchronous_commit', 'off', true) end as "isRelaxed"
  from leased`;
  return named(ofDay.name, statement);
}

/** The parts of the statement for the last day that was used. Most results are of one day. */
let pieces:
  | { readonly day: number; readonly name: string; readonly finished: Sql; readonly logged: Sql }
  | undefined;

function piecesOf(day: Date) {
  if (pieces?.day === day.getTime()) return pieces;
  const { first, end } = rangeOfDay(day);
  const isOfDay = (id: string): Sql => raw(`${id} >= '${first}' and ${id} < '${end}'`);
  const name = `writeResults-${day.toISOString().slice(0, 10)}`;
  const [finished, logged] = [finishDeliveries(isOfDay), logAttempts(isOfDay)];
  pieces = { day: day.getTime(), name, finished, logged };
  return pieces;
}

const updateHealth = (endpoints: readonly EndpointChange[]): Sql => sql`
  update endpoints e
     set flight_cap = g.flight_cap, consecutive_failures = g.failures,
         failing_since = to_timestamp(g.failing_since / 1000),
         failed_deliveries = string_to_array(g.failed, ',')::uuid[],
         circuit_opened_at = to_timestamp(g.opened_at / 1000), held_until = to_timestamp(g.held_until / 1000)
    from ${endpointRows('g', endpoints)}
    join leased on leased.name = g.lease and leased.token = g.token
   where e.shop_id = g.shop_id and e.id = g.id`;

const REMOVE_ENDED = sql`
  delete from queue q using results g
   where q.shop_id = any(array[g.shop_id]) and q.subscription_id = g.subscription_id and q.id = g.id
     and q.queued_at = g.round and (g.ended = 'delivered' or (g.ended is not null and q.attempts = g.attempts))
  returning q.id, q.attempts`;

function rescheduleRest(offsetMs: number): Sql {
  const offset = param(offsetMs);
  return sql`
  update queue q
     set is_retry = true,
         next_attempt_at = case when q.queued_at = g.round then now() + (${offset} + g.pause_ms) * interval '1 ms'
                                else q.next_attempt_at end,
         scheduled_at = case when q.queued_at = g.round then now() + ${offset} * interval '1 ms' else q.scheduled_at end,
         attempts = q.attempts + (g.started_ms is not null)::integer,
         round_attempts = q.round_attempts + (g.started_ms is not null and q.queued_at = g.round)::integer
    from results g
   where q.shop_id = any(array[g.shop_id]) and q.subscription_id = g.subscription_id and q.id = g.id
     and (g.ended is null or q.queued_at <> g.round) and q.attempts = g.attempts`;
}

// A delivery may be dropped or expire during its attempt. It is recorded as delivered when the attempt succeeded. The
// same is true while another transaction is dropping it, and the queue still has it (`being_dropped`).
const finishDeliveries = (isOfDay: (id: string) => Sql): Sql => sql`
  update deliveries d set ended = g.ended, finished_at = now()
    from results g left join removed r on r.id = g.id
    left join lateral (
      select true as is_so from queue q
       where r.id is null and g.ended = 'delivered'
         and q.shop_id = any(array[g.shop_id]) and q.subscription_id = g.subscription_id and q.id = g.id
         and q.queued_at = g.round limit 1) being_dropped on true
   where g.ended is not null
     and (r.id is not null or (g.ended = 'delivered' and (d.ended is not null or being_dropped.is_so)))
     and d.shop_id = g.shop_id and d.id = g.id and ${isOfDay('d.id')}
     and d.ended is distinct from 'delivered'`;

// The response may repeat the payload. It is not stored when the customer was redacted during the attempt.
const logAttempts = (isOfDay: (id: string) => Sql): Sql => sql`
  insert into attempts (shop_id, delivery_id, number, started_at, duration_ms, dns_ms, connect_ms, tls_ms, wait_ms,
    read_ms, status, error, url, request_headers, response_excerpt, response_headers)
  select g.shop_id, g.id, coalesce(r.attempts, g.attempts) + 1, to_timestamp(g.started_ms / 1000), g.duration_ms,
         g.dns_ms, g.connect_ms, g.tls_ms, g.wait_ms, g.read_ms, g.status, g.error, g.url, g.request_headers,
         case when redacted.is_so then '' else g.response_excerpt end,
         case when redacted.is_so then '' else g.response_headers end
    from results g left join removed r on r.id = g.id
    left join lateral (
      select true as is_so from payloads p
       where p.shop_id = g.shop_id and p.id = g.payload_id and ${isOfDay('p.id')} and p.redacted_at is not null
         and (g.response_excerpt <> '' or g.response_headers <> '') limit 1) redacted on true
   where g.started_ms is not null
  on conflict (shop_id, delivery_id, number) do nothing`;
