import { newestActive, payloadVersionServed } from '../../contract/versions.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { occurredAt } from '../delivery-id.ts';
import { idAt } from '../log/filter.ts';
import type { Subscription } from './subscription.ts';
import { COLUMNS } from './subscription-store.ts';

/** How well the deliveries of a subscription work. */
export interface Health {
  /**
   * Number of deliveries that count, of the newest 200 whose events occurred in the last 24 hours. Normally only
   * deliveries that were attempted count. While the subscription has failures since its last success, all count,
   * because its circuit may be open and most deliveries then wait without an attempt. What happened before
   * {@link countedSince} does not count.
   */
  readonly counted: number;
  /** Number of the counted deliveries that were delivered. */
  readonly delivered: number;
  /**
   * When the address was changed or a user activated the subscription, if that was in the last 24 hours; null
   * otherwise.
   */
  readonly countedSince: Date | null;
  /** Time of the event of the oldest waiting or held delivery; null when no delivery waits. */
  readonly oldestWaitingAt: Date | null;
  /** When the circuit of the endpoint opened, by the retry clock; null while it is closed. */
  readonly pausedSince: Date | null;
  /** The API version in which the shop gets its payloads today. */
  readonly payloadVersion: string;
}

const DAY_MS = 86_400_000;
/** Maximum number of deliveries that count for one subscription. So the statement reads at most 20,000 for a shop. */
const MAX_COUNTED = 200;

interface Row extends Subscription, Omit<Health, 'oldestWaitingAt' | 'payloadVersion'> {
  /** Id of the oldest waiting or held delivery. */
  readonly oldestId: string | null;
  readonly chosenVersion: string | null;
}

/**
 * Returns subscriptions of a shop with their health, by ascending id: all of them, or only the subscription with this
 * id. It is one statement, which reads only indexes.
 *
 * @param o.today the current day of the version calendar.
 */
export async function readWithHealth(
  db: Queryable,
  o: { readonly shopId: bigint; readonly subscriptionId?: bigint; readonly today: Date },
): Promise<(Subscription & Health)[]> {
  const since = new Date(Date.now() - DAY_MS);
  const values = [o.shopId, o.subscriptionId ?? null, idAt(since), since];
  const { rows } = await db.query<Row>(SUBSCRIPTIONS, values);
  return rows.map(({ oldestId, chosenVersion, ...row }) => ({
    ...row,
    oldestWaitingAt: oldestId === null ? null : occurredAt(oldestId),
    payloadVersion: payloadVersionServed(chosenVersion ?? newestActive(o.today), o.today).version,
  }));
}

// SQL condition: a waiting delivery was attempted. After a change of the address, only attempts at the new address
// count; only then the attempts are read.
const WAS_ATTEMPTED = `q.attempts > 0 and (h.since is null or exists (
            select from attempts a where a.shop_id = $1 and a.delivery_id = q.id and a.started_at >= h.since))`;

const SUBSCRIPTIONS = `
select ${COLUMNS}, e.circuit_opened_at as "pausedSince", v.version as "chosenVersion", r.counted, r.delivered,
       h.since as "countedSince",
       (select q.id from queue q where q.shop_id = $1 and q.subscription_id = s.id order by q.id limit 1) as "oldestId"
  from subscriptions s
  join endpoints e on e.shop_id = s.shop_id and e.id = s.endpoint_id
  left join payload_versions v on v.shop_id = s.shop_id
 cross join lateral (select case when s.health_since > $4 then s.health_since end as since) h
 cross join lateral (
   select count(*) filter (where d.ended = 'delivered')::integer as delivered,
          count(*) filter (where d.ended <> 'dropped' or q.id is not null and (s.failures > 0 or ${WAS_ATTEMPTED}))::integer as counted
     from (
       select l.id, l.ended, l.finished_at from deliveries l
        where l.shop_id = $1 and l.subscription_id = s.id and l.id >= $3
        order by l.id desc limit ${MAX_COUNTED}) d
     left join queue q on d.ended is null and q.shop_id = $1 and q.subscription_id = s.id and q.id = d.id
    where d.ended is null or h.since is null or d.finished_at >= h.since) r
 where s.shop_id = $1 and ($2::bigint is null or s.id = $2) and s.deleted_at is null
 order by s.id`;
