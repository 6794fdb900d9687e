import type pg from 'pg';
import type { Logger } from '../platform/log.ts';
import type { Telemetry } from '../platform/telemetry.ts';
import { startLoop, type Worker } from '../platform/worker.ts';
import { expireHeld } from './delivery/backlog.ts';
import type { RetryClock } from './delivery/retry-clock.ts';

const EVERY_MS = 60_000;
const BATCH = 1_000;

/**
 * Ends what was held for too long, and removes what is older than its retention: finished
 * deliveries with their attempts and payloads, then what nothing refers to any more.
 *
 * @param o.days see {@link purge}; by real time.
 */
export function startMaintenance(o: {
  pool: pg.Pool;
  logger: Logger;
  telemetry: Telemetry;
  clock: RetryClock;
  days: KeptDays;
}): Worker & { wake(): void } {
  const ended = o.telemetry.meter.createCounter('webhooks.expired', {
    description: 'Deliveries that were held for too long',
  });
  return startLoop({
    name: 'maintenance',
    idleMs: EVERY_MS,
    logger: o.logger,
    async step() {
      const expired = await expireHeld(o.pool, { offsetMs: o.clock.offsetMs(), limit: BATCH });
      if (expired > 0) {
        ended.add(expired);
        o.logger.info({ expired }, 'held deliveries expired');
      }
      const purged = await purge(o.pool, o.days);
      return expired === BATCH || purged ? 'again' : 'idle';
    },
  });
}

export interface KeptDays {
  /** How long the log is kept after a delivery is finished. */
  readonly log: number;
  /** How long published events are kept, and may come again. */
  readonly events: number;
}

/**
 * Whether there may be more. Each statement is small, so that none locks for long. Which returns
 * were redacted is known for longer than any event that could bring the customer back.
 */
export async function purge(pool: pg.Pool, days: KeptDays): Promise<boolean> {
  let more = false;
  const clear = async (statement: string, olderThanDays: number): Promise<void> => {
    const { rowCount } = await pool.query(statement, [olderThanDays, BATCH]);
    more ||= rowCount === BATCH;
  };
  for (const statement of [DELIVERIES, PAYLOADS, SUBSCRIPTIONS, ENDPOINTS]) {
    await clear(statement, days.log);
  }
  await clear(REDACTED, Math.max(days.log, days.events + 1));
  return more;
}

const DELIVERIES = `
delete from deliveries d using (
  select shop_id, id from deliveries
   where finished_at < now() - $1 * interval '1 day' and lease_token is null
   order by finished_at limit $2) as old
where d.shop_id = old.shop_id and d.id = old.id
  -- Not one that was replayed a moment ago.
  and d.finished_at < now() - $1 * interval '1 day' and d.lease_token is null`;

const PAYLOADS = `
delete from payloads p using (
  select shop_id, id from payloads o
   where o.created_at < now() - $1 * interval '1 day'
     and not exists (select from deliveries d where d.shop_id = o.shop_id and d.payload_id = o.id)
   limit $2) as old
where p.shop_id = old.shop_id and p.id = old.id`;

const SUBSCRIPTIONS = `
delete from subscriptions s using (
  select shop_id, id from subscriptions o
   where o.deleted_at < now() - $1 * interval '1 day'
     and not exists (select from deliveries d where d.shop_id = o.shop_id and d.subscription_id = o.id)
   limit $2) as old
where s.shop_id = old.shop_id and s.id = old.id`;

const ENDPOINTS = `
delete from endpoints e using (
  select shop_id, id from endpoints o
   where o.created_at < now() - $1 * interval '1 day'
     and not exists (select from subscriptions s where s.shop_id = o.shop_id and s.endpoint_id = o.id)
     and not exists (select from deliveries d where d.shop_id = o.shop_id and d.endpoint_id = o.id)
   limit $2 for update skip locked) as old
where e.shop_id = old.shop_id and e.id = old.id`;

const REDACTED = `
delete from redacted_returns r using (
  select shop_id, return_id from redacted_returns
   where redacted_at < now() - $1 * interval '1 day' limit $2) as old
where r.shop_id = old.shop_id and r.return_id = old.return_id`;
