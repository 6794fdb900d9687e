import { param, raw, type Sql, sql } from '../../platform/sql.ts';
import { rangeOfEvent, rangesOfEvents } from '../delivery-id.ts';
import type { Filter } from './filter.ts';
import { LOGGED_COLUMNS } from './rows.ts';

/** Maximum number of deliveries that one page scans. So the search for a rare state ends. */
const MAX_SCANNED = 5_000;
/** Maximum number of waiting deliveries of each subscription that one page scans. */
const MAX_SCANNED_QUEUED = 500;
/** Maximum number of bodies of one return that one page scans. The newest are scanned first. */
const MAX_SCANNED_BODIES = 2_000;

/** The rows that a read of the log scans. */
export interface Source {
  /** A query for the {@link LOGGED_COLUMNS}, newest first, at most `scanned` rows. */
  readonly sql: Sql;
  readonly scanned: number;
}

const QUEUED: readonly string[] = ['waiting', 'held'];

/**
 * Chooses which rows are scanned: the deliveries of a job, those of the events of a return, the queue, the deliveries
 * of a subscription, or all deliveries.
 *
 * @param o.limit size of the page.
 * @param o.scanned maximum number of rows from any source; by default as many as a page from this source needs.
 */
export function sourceOf(
  filter: Filter,
  o: { readonly limit: number; readonly scanned?: number },
): Source {
  const { states, subscriptionIds, returnId, jobId, trigger, topic } = filter;
  const source = (sourceSql: SourceSql, ofPage: number): Source => {
    const { scanned = ofPage } = o;
    return { sql: sourceSql(filter, scanned), scanned };
  };
  if (jobId !== null) return source(ofJob, MAX_SCANNED);
  if (returnId !== null) return source(ofReturn, MAX_SCANNED);
  const isQueued = states.length > 0 && states.every((state) => QUEUED.includes(state));
  if (isQueued) return source(ofQueue, MAX_SCANNED_QUEUED);
  const isOne = subscriptionIds?.length === 1;
  const isPlain = states.length === 0 && trigger === '' && topic === '';
  const ofPage = isPlain && (isOne || subscriptionIds === null) ? o.limit + 1 : MAX_SCANNED;
  return source(isOne ? ofSubscription : ofShop, ofPage);
}

type SourceSql = (filter: Filter, scanned: number) => Sql;

// For a return, a job and the queue there is an inner limit. Without it, PostgreSQL may read all deliveries for the
// join. The page may begin in the middle of an event, whose bodies may have higher ids than the first delivery of the
// page.
const ofReturn: SourceSql = ({ shopId, returnId, firstId, endId }, scanned) => {
  const [shop, limit] = [param(shopId), param(scanned)];
  const bodies = sql`
   select p.id from payloads p
    where p.shop_id = ${shop} and p.return_id = ${returnId}
      and p.id between ${rangeOfEvent(firstId).first} and ${rangeOfEvent(endId).last}
    order by p.id desc limit ${raw(MAX_SCANNED_BODIES)}`;
  return sql`
select ${LOGGED_COLUMNS} from (${rangesOfEvents(bodies)}) r
 cross join lateral (
   select * from deliveries l
    where l.shop_id = ${shop} and l.id between r.first and r.last and l.id >= ${firstId} and l.id < ${endId}
    order by l.id desc limit ${limit}) d
 order by d.id desc limit ${limit}`;
};

const ofJob: SourceSql = ({ shopId, jobId, firstId, endId }, scanned) => {
  const [shop, limit] = [param(shopId), param(scanned)];
  return sql`
select ${LOGGED_COLUMNS} from (
   select j.delivery_id as id from job_deliveries j
    where j.shop_id = ${shop} and j.job_id = ${jobId} and j.delivery_id >= ${firstId} and j.delivery_id < ${endId}
    order by j.delivery_id desc limit ${limit}) w
 cross join lateral (
   select * from deliveries l where l.shop_id = ${shop} and l.id = w.id limit 1) d
 order by d.id desc`;
};

const ofQueue: SourceSql = ({ shopId, subscriptionIds, firstId, endId }, scanned) => {
  const [shop, limit, subscriptions] = [param(shopId), param(scanned), param(subscriptionIds)];
  return sql`
select ${LOGGED_COLUMNS} from subscriptions s
 cross join lateral (
   select q.id from queue q
    where q.shop_id = ${shop} and q.subscription_id = s.id and q.id >= ${firstId} and q.id < ${endId}
    order by q.id desc limit ${limit}) w
  cross join lateral (
   select * from deliveries l where l.shop_id = ${shop} and l.id = w.id limit 1) d
 where s.shop_id = ${shop} and (${subscriptions}::bigint[] is null or s.id = any(${subscriptions}))
   and s.deleted_at is null
 order by d.id desc limit ${limit}`;
};

const ofSubscription: SourceSql = ({ shopId, subscriptionIds, firstId, endId }, scanned) => sql`
select ${LOGGED_COLUMNS} from deliveries d
 where d.shop_id = ${shopId} and d.subscription_id = ${subscriptionIds?.[0]} and d.id >= ${firstId} and d.id < ${endId}
 order by d.id desc limit ${scanned}`;

const ofShop: SourceSql = ({ shopId, firstId, endId }, scanned) => sql`
select ${LOGGED_COLUMNS} from deliveries d
 where d.shop_id = ${shopId} and d.id >= ${firstId} and d.id < ${endId}
 order by d.id desc limit ${scanned}`;
