import type pg from 'pg';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { startLoop, type Worker } from '../../platform/process/worker.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import { purgeKeys } from '../../platform/values/idempotency.ts';

const TIMELINE_DAYS = 400;
/**
 * Operations whose keys are never deleted. An import may be repeated years later, and the id of a shipment is its key.
 */
const KEPT_KEYS = ['SubmitReturn', 'RecordPartnerShipment'];
/**
 * How many days longer than its event a snapshot is kept. Events are deleted by whole days, after the day has ended.
 */
const SNAPSHOT_EXTRA_DAYS = 2;
/** How long the ids of events of commerce providers are kept. An event is repeated only within days. */
const INBOUND_EVENT_DAYS = 7;
const EVERY_MS = 60 * 60 * 1_000;
/** How long handled webhooks of Shopify are remembered. Shopify repeats a webhook for some hours. */
const WEBHOOK_DAYS = 7;
const DATA_REQUEST_DAYS = 90;
/** How long withdrawals are kept as proofs. */
const WITHDRAWAL_YEARS = 3;
/** Maximum number of rows that one statement deletes, so that it does not block other statements for long. */
const ROWS = 5_000;

/**
 * Starts the loop that deletes old rows: timeline entries after 400 days, idempotency keys after 90 days (except those
 * of submissions and shipments), ids of events of commerce providers after a week, expired install links, handled
 * webhooks and data requests of Shopify, withdrawals after three years, and stored snapshots two days after their events. Several replicas may run it.
 *
 * @param o.snapshotDays for how many days events are stored.
 */
export function startPurge(o: {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly snapshotDays: number;
}): Worker {
  return startLoop({
    name: 'returns: purge',
    idleMs: EVERY_MS,
    logger: o.logger,
    step: async () => {
      const removed = await purge(o.pool, o.snapshotDays);
      return removed > 0 ? 'again' : 'idle';
    },
  });
}

/** Does one step of the purge. @returns the number of deleted rows. */
export async function purge(db: Queryable, snapshotDays: number): Promise<number> {
  const entries = await db.query(
    `delete from timeline
      where (shop_id, return_id, id) in (
        select shop_id, return_id, id from timeline
         where occurred_at < now() - $1 * interval '1 day' limit $2)`,
    [TIMELINE_DAYS, ROWS],
  );
  const snapshots = await db.query(
    `delete from snapshots
      where (shop_id, return_id, revision) in (
        select shop_id, return_id, revision from snapshots
         where created_at < now() - $1 * interval '1 day' limit $2)`,
    [snapshotDays + SNAPSHOT_EXTRA_DAYS, ROWS],
  );
  const news = await db.query(
    `delete from inbound_events
      where (shop_id, webhook_id) in (
        select shop_id, webhook_id from inbound_events
         where received_at < now() - $1 * interval '1 day' limit $2)`,
    [INBOUND_EVENT_DAYS, ROWS],
  );
  const keys = await purgeKeys(db, KEPT_KEYS);
  const installs = await db.query(`delete from shopify_installs where expires_at < now()`);
  const webhooks = await db.query(
    `delete from shopify_webhooks where (shop_domain, topic, webhook_id) in (
       select shop_domain, topic, webhook_id from shopify_webhooks
        where received_at < now() - $1 * interval '1 day' limit $2)`,
    [WEBHOOK_DAYS, ROWS],
  );
  const requests = await db.query(
    `delete from shopify_data_requests where (shop_id, id) in (
       select shop_id, id from shopify_data_requests
        where received_at < now() - $1 * interval '1 day' limit $2)`,
    [DATA_REQUEST_DAYS, ROWS],
  );
  const withdrawals = await db.query(
    `delete from withdrawals where (shop_id, id) in (
       select shop_id, id from withdrawals where declared_at < now() - $1 * interval '1 year' limit $2)`,
    [WITHDRAWAL_YEARS, ROWS],
  );
  const removed = [entries, snapshots, news, installs, webhooks, requests, withdrawals].map(
    ({ rowCount }) => rowCount ?? 0,
  );
  return removed.reduce((sum, count) => sum + count, keys);
}

/** How long finished jobs are kept, so that people can investigate a failed run. The timeline is kept longer. Days. */
const KEEP_DAYS = 30;
const BATCH = 1_000;
const PURGE_MS = 3_600_000;

/**
 * Starts the loop that deletes finished jobs and their additional details after 30 days. It keeps the last failed job
 * of a return that can still be processed, because the next run uses its details.
 */
export function startJobPurge(o: { pool: pg.Pool; logger: Logger }): Worker {
  return startLoop({
    name: 'processing-purge',
    idleMs: PURGE_MS,
    logger: o.logger,
    step: async () => ((await purgeJobs(o.pool)) < BATCH ? 'idle' : 'again'),
  });
}

/** Deletes up to a thousand jobs. @returns their number. */
export async function purgeJobs(db: Queryable): Promise<number> {
  const { rowCount } = await db.query(
    `delete from processing_jobs where (shop_id, id) in (
       select j.shop_id, j.id from processing_jobs j
       where j.state in ('done', 'failed') and j.finished_at < now() - make_interval(days => $1)
         and not (
           j.state = 'failed'
           and exists (
             select from returns r
             where r.shop_id = j.shop_id and r.id = j.return_id and r.state in ('open', 'review'))
           and not exists (
             select from processing_jobs newer
             where newer.shop_id = j.shop_id and newer.return_id = j.return_id
               and newer.state = 'failed' and newer.id > j.id))
       limit $2)`,
    [KEEP_DAYS, BATCH],
  );
  return rowCount ?? 0;
}
