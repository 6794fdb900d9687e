import type pg from 'pg';
import { inTransaction, type Queryable } from '../../../platform/postgres.ts';
import { dayOf, rangeOfDay } from '../../delivery-id.ts';
import type { EndpointChange } from '../endpoint/health-changes.ts';
import { leaseOf, queueKeyOf } from '../queue/queue-ref.ts';
import type { AttemptResult } from './attempt-result.ts';
import { countFailures, type Notice } from './count-failures.ts';

export interface WrittenResults {
  /** Not recorded, because another process holds the shard now. */
  readonly stale: readonly AttemptResult[];
  /** Not recorded yet, because another transaction has locked their subscriptions. */
  readonly passed: readonly AttemptResult[];
  /** Subscriptions that were disabled, and warnings. */
  readonly notices: readonly Notice[];
}

/**
 * Records results of attempts and the times of the next attempts, in one statement. If attempts failed, or succeeded
 * for the first time after failures, the failures of their subscriptions are counted first, in the same transaction.
 * Successes do not wait for the disk. May be repeated when the answer of a commit was lost.
 *
 * - A result whose lease is lost is left out.
 * - A delivery that was dropped during its attempt stays dropped, unless it was delivered.
 * - A delivery that was started again during its attempt continues; the attempt is only logged.
 * - A failure of a subscription that another transaction has locked is skipped, because the lock may last long.
 *
 * @param o.offsetMs of the retry clock.
 */
export async function writeResults(
  pool: pg.Pool,
  attemptResults: readonly AttemptResult[],
  endpoints: readonly EndpointChange[],
  o: { offsetMs: number },
): Promise<WrittenResults> {
  const judged = toBeJudged(attemptResults);
  if (judged.length === 0) {
    // After a crash of the database, deliveries with lost results are sent again, like deliveries in flight.
    const relaxed = { ...o, isRelaxed: true };
    return {
      stale: await write(pool, attemptResults, endpoints, relaxed),
      passed: [],
      notices: [],
    };
  }
  return inTransaction(pool, async (tx) => {
    const values = [leasesOf(attemptResults, endpoints)];
    await tx.query({ name: 'lock-leases', text: LOCK_LEASES, values });
    const { notices, busy } = await countFailures(tx, judged, o);
    const passed = judged.filter(({ due }) => busy.has(queueKeyOf(due)));
    const rest = attemptResults.filter((one) => !passed.includes(one));
    return { stale: await write(tx, rest, endpoints, o), passed, notices };
  });
}

/** Results that change the failures of a subscription: failures, and the first success after failures. */
function toBeJudged(attemptResults: readonly AttemptResult[]): AttemptResult[] {
  const isSign = ({ due, sent, ended }: AttemptResult): boolean =>
    sent !== undefined && (ended !== 'delivered' || due.isFailing);
  const failing = new Set(attemptResults.filter(isSign).map(({ due }) => queueKeyOf(due)));
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

/** Returns the results that were not written. */
async function write(
  db: Queryable,
  attemptResults: readonly AttemptResult[],
  endpoints: readonly EndpointChange[],
  o: { offsetMs: number; isRelaxed?: boolean },
): Promise<AttemptResult[]> {
  const stale: AttemptResult[] = [];
  const days = byDay(attemptResults);
  // All results were skipped. The health of their endpoints is recorded anyway.
  if (days.size === 0 && endpoints.length > 0) days.set(new Date().setUTCHours(0, 0, 0, 0), []);
  let changes = endpoints;
  for (const [day, ofDay] of days) {
    stale.push(...(await writeDay(db, new Date(day), ofDay, { endpoints: changes, ...o })));
    changes = [];
  }
  return stale;
}

function byDay(attemptResults: readonly AttemptResult[]): Map<number, AttemptResult[]> {
  return Map.groupBy(attemptResults, ({ due }) => dayOf(due.id).getTime());
}

async function writeDay(
  db: Queryable,
  day: Date,
  attemptResults: readonly AttemptResult[],
  o: { endpoints: readonly EndpointChange[]; offsetMs: number; isRelaxed?: boolean },
): Promise<AttemptResult[]> {
  const { rows } = await db.query<{ name: string; token: bigint }>({
    name: `writeResults-${day.toISOString().slice(0, 10)}`,
    text: recordOf(day),
    values: [
      leasesOf(attemptResults, o.endpoints),
      ...columnsOf(attemptResults),
      o.offsetMs,
      ...endpointColumns(o.endpoints),
      o.isRelaxed ?? false,
    ],
  });
  const tokens = new Map(rows.map(({ name, token }) => [name, token]));
  return attemptResults.filter(({ due, token }) => tokens.get(leaseOf(due)) !== token);
}

function columnsOf(all: readonly AttemptResult[]): unknown[] {
  return [
    all.map(({ due }) => due.shopId),
    all.map(({ due }) => due.subscriptionId),
    all.map(({ due }) => due.id),
    all.map(({ due }) => leaseOf(due)),
    all.map(({ token }) => token),
    all.map(({ due }) => due.attempts),
    all.map(({ ended }) => ended),
    all.map(({ pauseMs }) => pauseMs),
    all.map(({ due }) => due.payloadId),
    all.map(({ sent }) => sent?.outcome.startedAt.getTime() ?? null),
    all.map(({ sent }) => sent?.outcome.durationMs ?? 0),
    all.map(({ sent }) => sent?.outcome.timing.dnsMs ?? null),
    all.map(({ sent }) => sent?.outcome.timing.connectMs ?? null),
    all.map(({ sent }) => sent?.outcome.timing.tlsMs ?? null),
    all.map(({ sent }) => sent?.outcome.timing.waitMs ?? null),
    all.map(({ sent }) => sent?.outcome.timing.readMs ?? null),
    all.map(({ sent }) => sent?.outcome.status ?? 0),
    all.map(({ sent }) => sent?.outcome.error ?? ''),
    all.map(({ due }) => due.url),
    all.map(({ sent }) => sent?.headers ?? ''),
    all.map(({ sent }) => sent?.outcome.excerpt ?? ''),
    all.map(({ due }) => due.round),
  ];
}

function endpointColumns(all: readonly EndpointChange[]): unknown[] {
  return [
    all.map((one) => one.shopId),
    all.map((one) => one.endpointId),
    all.map(leaseOf),
    all.map((one) => one.token),
    all.map(({ health }) => health.maxInFlight),
    all.map(({ health }) => health.failures),
    all.map(({ health }) => health.failingSinceMs),
    all.map(({ health }) => health.circuit?.openedAtMs ?? null),
    all.map(({ health }) => health.circuit?.heldUntilMs ?? null),
    all.map(({ health }) => health.failed.join()),
  ];
}

// Before any subscription. The order is always: leases, subscriptions, endpoints, queue, deliveries.
const LOCK_LEASES = `
select from leases where name = any($1::text[]) order by name for share`;

// The bounds of the day are constants, so that only one partition of each table is planned. (PostgreSQL 18.4 crashes
// when it prunes partitions while it reads a row again that another transaction changed.) `any(array[…])` is an
// equality without an order, which prevents a merge join. Otherwise the whole queue would be read in the order of its
// key when the statistics report an empty table, as they usually do.
//
// A delivery that succeeded although it was dropped or expired is recorded as delivered, also when that happens at this
// moment and the queue still shows it (`being_dropped`). An answer may repeat the payload, so it is not stored if the
// customer was redacted during the attempt.
const recordOf = (day: Date): string => {
  const { first, end } = rangeOfDay(day);
  return `
with leased as materialized (
  select l.name, l.token from leases l where l.name = any($1::text[]) order by l.name for share
), given as materialized (
  select g.* from unnest($2::bigint[], $3::bigint[], $4::uuid[], $5::text[], $6::bigint[], $7::integer[], $8::text[],
      $9::float8[], $10::uuid[], $11::float8[], $12::integer[], $13::integer[], $14::integer[], $15::integer[],
      $16::integer[], $17::integer[], $18::integer[], $19::text[], $20::text[], $21::text[], $22::text[],
      $23::timestamptz[])
    as g (shop_id, subscription_id, id, lease, token, attempts, ended, pause_ms, payload_id, started_ms, duration_ms,
          dns_ms, connect_ms, tls_ms, wait_ms, read_ms, status, error, url, request_headers, response_excerpt, round)
    join leased l on l.name = g.lease and l.token = g.token
), health as (
  update endpoints e
     set flight_cap = g.flight_cap, consecutive_failures = g.failures,
         failing_since = to_timestamp(g.failing_since / 1000),
         failed_deliveries = string_to_array(g.failed, ',')::uuid[],
         circuit_opened_at = to_timestamp(g.opened_at / 1000), held_until = to_timestamp(g.held_until / 1000)
    from unnest($25::bigint[], $26::bigint[], $27::text[], $28::bigint[], $29::smallint[], $30::integer[],
                $31::float8[], $32::float8[], $33::float8[], $34::text[])
         as g (shop_id, id, lease, token, flight_cap, failures, failing_since, opened_at, held_until, failed)
    join leased l on l.name = g.lease and l.token = g.token
   where e.shop_id = g.shop_id and e.id = g.id
), removed as (
  delete from queue q using given g
   where q.shop_id = any(array[g.shop_id]) and q.subscription_id = g.subscription_id and q.id = g.id
     and q.queued_at = g.round and (g.ended = 'delivered' or (g.ended is not null and q.attempts = g.attempts))
  returning q.id, q.attempts
), moved as (
  update queue q
     set is_retry = true,
         next_attempt_at = case when q.queued_at = g.round then now() + ($24 + g.pause_ms) * interval '1 ms'
                                else q.next_attempt_at end,
         scheduled_at = case when q.queued_at = g.round then now() + $24 * interval '1 ms' else q.scheduled_at end,
         attempts = q.attempts + (g.started_ms is not null)::integer,
         round_attempts = q.round_attempts + (g.started_ms is not null and q.queued_at = g.round)::integer
    from given g
   where q.shop_id = any(array[g.shop_id]) and q.subscription_id = g.subscription_id and q.id = g.id
     and (g.ended is null or q.queued_at <> g.round) and q.attempts = g.attempts
), finished as (
  update deliveries d set ended = g.ended, finished_at = now()
    from given g left join removed r on r.id = g.id
    left join lateral (
      select true as is_so from queue q
       where r.id is null and g.ended = 'delivered'
         and q.shop_id = any(array[g.shop_id]) and q.subscription_id = g.subscription_id and q.id = g.id
         and q.queued_at = g.round limit 1) being_dropped on true
   where g.ended is not null
     and (r.id is not null or (g.ended = 'delivered' and (d.ended is not null or being_dropped.is_so)))
     and d.shop_id = g.shop_id and d.id = g.id and d.id >= '${first}' and d.id < '${end}'
     and d.ended is distinct from 'delivered'
), logged as (
  insert into attempts (shop_id, delivery_id, number, started_at, duration_ms, dns_ms, connect_ms, tls_ms, wait_ms,
    read_ms, status, error, url, request_headers, response_excerpt)
  select g.shop_id, g.id, coalesce(r.attempts, g.attempts) + 1, to_timestamp(g.started_ms / 1000), g.duration_ms,
         g.dns_ms, g.connect_ms, g.tls_ms, g.wait_ms, g.read_ms, g.status, g.error, g.url, g.request_headers,
         case when g.response_excerpt = '' then ''
              when exists (select from payloads p where p.shop_id = g.shop_id and p.id = g.payload_id and p.id >= '${first}' and p.id < '${end}'
                              and p.redacted_at is not null) then ''
              else g.response_excerpt end
    from given g left join removed r on r.id = g.id
   where g.started_ms is not null
  on conflict (shop_id, delivery_id, number) do nothing
)
select name, token, case when $35::boolean then set_config('synchronous_commit', 'off', true) end as "isRelaxed"
  from leased`;
};
