import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { onlyRow } from '../platform/postgres/only-row.ts';
import { startDayKeeper } from '../platform/postgres/partitions.ts';
import type { Queryable } from '../platform/postgres/postgres.ts';
import { sharedWithTimeout } from '../platform/postgres/shared-with-timeout.ts';
import { startLoop, type Worker } from '../platform/process/worker.ts';
import type { Logger } from '../platform/telemetry/log.ts';
import type { Telemetry } from '../platform/telemetry/telemetry.ts';
import { publishDueCounts } from './announce.ts';
import type { RetryClock } from './delivery/attempt/retry-schedule.ts';
import { endBacklog } from './delivery/queue/end-waiting.ts';
import { deleteLateResponses } from './fan-out/redact.ts';
import { purgeJobs } from './jobs/job-store.ts';
import { PROVEN_DAYS } from './sender/network-limit.ts';

const BACKLOG_EVERY_MS = 15_000;
const PURGE_EVERY_MS = 60_000;
const BATCH = 1_000;
/** How many days before they are needed partitions are created, so that operators notice a stopped job in time. */
const DAYS_AHEAD = 3;

export interface KeptDays {
  /** How long a day of the log is kept after its last delivery has ended. Days. */
  readonly log: number;
  /** How long publishers keep published events. During this time, an event may arrive again. Days. */
  readonly events: number;
}

export interface MaintenanceOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  readonly clock: RetryClock;
  /** How long rows are kept, by the real time. */
  readonly days: KeptDays;
}

/**
 * Starts the maintenance. It ends deliveries that were held for too long, and those of deleted subscriptions. It
 * publishes counts of exhausted deliveries. It creates and drops the day partitions of the log. It deletes rows that
 * nothing refers to.
 */
export function startMaintenance(o: MaintenanceOptions): Worker & { wake(): void } {
  const backlog = startBacklogLoop(o);
  const purging = startLoop({
    name: 'maintenance',
    idleMs: PURGE_EVERY_MS,
    logger: o.logger,
    async step() {
      await deleteLateResponses(o.pool);
      const isMore = await publishDueCounts(o.pool);
      return (await purge(o.pool, o.days)) || isMore ? 'again' : 'idle';
    },
  });
  const days = startDayKeeper({
    pool: o.pool,
    logger: o.logger,
    name: 'delivery-days',
    owner: randomUUID(),
    maintain: () => maintainDays(o.pool, o.days),
  });
  const unobserve = observeStored(o);
  return {
    wake: () => backlog.wake(),
    async stop() {
      unobserve();
      await Promise.all([backlog.stop(), purging.stop(), days.stop()]);
    },
  };
}

function startBacklogLoop(o: MaintenanceOptions): Worker & { wake(): void } {
  const { meter } = o.telemetry;
  const expiredCounter = meter.createCounter('webhooks.expired', {
    description: 'Deliveries that expired because they were held for too long',
  });
  const droppedCounter = meter.createCounter('webhooks.dropped', {
    description: 'Deliveries that were dropped because their subscription was deleted',
  });
  return startLoop({
    name: 'backlog',
    idleMs: BACKLOG_EVERY_MS,
    logger: o.logger,
    async step() {
      const { expired, dropped, isMore } = await endBacklog(o.pool, o.clock.offsetMs());
      if (expired > 0) expiredCounter.add(expired);
      if (dropped > 0) droppedCounter.add(dropped);
      if (expired + dropped > 0)
        o.logger.info({ expired, dropped }, 'waiting deliveries expired or dropped');
      return isMore ? 'again' : 'idle';
    },
  });
}

/**
 * Creates partitions for all days from which events may arrive, also by a replay. Drops partitions that are older than
 * the retention. Keeps a day on which a delivery has not ended, or has ended a short time ago.
 */
export async function maintainDays(
  db: Queryable,
  days: KeptDays,
): Promise<{ made: number; dropped: number }> {
  const made = await db.query<{ count: number }>('select create_delivery_days($1, $2) as count', [
    Math.min(days.events + 1, days.log),
    DAYS_AHEAD,
  ]);
  const dropped = await db.query<{ count: number }>('select drop_delivery_days($1) as count', [
    days.log,
  ]);
  return { made: onlyRow(made).count, dropped: onlyRow(dropped).count };
}

/** Most queues that are read for the oldest delivery. */
const MAX_QUEUES = 1_000;

/** Gauges of what is stored, so each replica has the same values. */
function observeStored(o: MaintenanceOptions): () => void {
  const ends = [
    observeQuery(o, {
      name: 'webhooks.circuits_open',
      description: 'Endpoints with an open circuit, which get only probes',
      text: 'select count(*)::int as value from endpoints where circuit_opened_at is not null',
    }),
    observeQuery(o, {
      name: 'webhooks.oldest_due_age_seconds',
      description:
        'How long the oldest delivery is due that was not tried yet, at endpoints without failures',
      text: `
select coalesce(greatest(0, extract(epoch from now() + $1 * interval '1 ms' - min(first.at)))::float8, 0) as value
  from (select sq.shop_id, sq.subscription_id, sq.ready_at
          from subscription_queues sq join endpoints e on e.shop_id = sq.shop_id and e.id = sq.endpoint_id
         where sq.ready_at <= now() + $1 * interval '1 ms' and e.circuit_opened_at is null
         order by sq.ready_at limit ${MAX_QUEUES}) ready
 cross join lateral (
   select least(greatest(q.next_attempt_at, ready.ready_at), now() + $1 * interval '1 ms') as at from queue q
    where q.shop_id = ready.shop_id and q.subscription_id = ready.subscription_id and not q.is_retry
    order by q.next_attempt_at limit 1) first`,
      values: () => [o.clock.offsetMs()],
    }),
  ];
  return () => {
    for (const end of ends) end();
  };
}

/** @param o.text reads one row with a `value`. */
function observeQuery(
  { telemetry, pool }: MaintenanceOptions,
  o: {
    readonly name: string;
    readonly description: string;
    readonly text: string;
    readonly values?: () => unknown[];
  },
): () => void {
  const gauge = telemetry.meter.createObservableGauge(o.name, { description: o.description });
  const read = sharedWithTimeout(() => pool.query<{ value: number }>(o.text, o.values?.()));
  const observe = async (result: { observe: (value: number) => void }): Promise<void> => {
    const found = await read();
    if (found) result.observe(onlyRow(found).value);
  };
  gauge.addCallback(observe);
  return () => gauge.removeCallback(observe);
}

/**
 * Deletes rows that nothing refers to. Each statement is small, so that none locks rows for long. The list of redacted
 * returns is kept for longer than any event that may contain the customer. Returns whether there may be more rows to
 * delete.
 */
export async function purge(pool: pg.Pool, days: KeptDays): Promise<boolean> {
  let more = false;
  const clear = async (statement: string, olderThanDays: number): Promise<void> => {
    const { rowCount } = await pool.query(statement, [olderThanDays, BATCH]);
    more ||= rowCount === BATCH;
  };
  await clear(SUBSCRIPTIONS, days.log);
  await clear(ENDPOINTS, days.log);
  const kept = { days: days.log, limit: BATCH };
  more = (await purgeJobs(pool, kept)) || more;
  await clear(NETWORKS, PROVEN_DAYS);
  await clear(REDACTED, Math.max(days.log, days.events + 1));
  return more;
}

const SUBSCRIPTIONS = `
delete from subscriptions s using (
  select shop_id, id from subscriptions o
   where o.deleted_at < now() - $1 * interval '1 day'
     and not exists (select from subscription_queues sq where sq.shop_id = o.shop_id and sq.subscription_id = o.id)
     and not exists (select from deliveries d where d.shop_id = o.shop_id and d.subscription_id = o.id)
   limit $2) as old
where s.shop_id = old.shop_id and s.id = old.id`;

const ENDPOINTS = `
delete from endpoints e using (
  select shop_id, id from endpoints o
   where o.created_at < now() - $1 * interval '1 day'
     and not exists (select from subscriptions s where s.shop_id = o.shop_id and s.endpoint_id = o.id)
   limit $2 for update skip locked) as old
where e.shop_id = old.shop_id and e.id = old.id`;

const REDACTED = `
delete from redacted_returns r using (
  select shop_id, return_id from redacted_returns
   where redacted_at < now() - $1 * interval '1 day' limit $2) as old
where r.shop_id = old.shop_id and r.return_id = old.return_id`;

// What is deleted means the same as what was never stored: all its periods have ended.
const NETWORKS = `
delete from receiver_networks n using (
  select network from receiver_networks
   where (proven_at is null or proven_at < now() - $1 * interval '1 day')
     and greatest(minute_at, hour_at, large_at) < now() - interval '1 hour'
   limit $2 for update skip locked) as old
where n.network = old.network`;
