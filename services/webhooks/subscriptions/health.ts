import { newestActive, payloadVersionServed } from '../../contract/versions.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { idAt, occurredAt } from '../log/filter.ts';
import type { Subscription } from './subscription.ts';
import { COLUMNS } from './subscription-store.ts';

/** How the deliveries of a subscription fare. */
export interface Health {
  /**
   * Deliveries of events of the last 24 hours that count, of the newest 200: those that were attempted and, while the
   * subscription has failures since its last success, all. Its circuit may be open then, so that most wait unattempted.
   * Of a delivery that ended or was attempted before {@link countedSince} nothing counts.
   */
  readonly counted: number;
  /** Those of them that were delivered. */
  readonly delivered: number;
  /** When the address changed or a user activated the subscription, within the last 24 hours; null otherwise. */
  readonly countedSince: Date | null;
  /** Time of the event of the oldest waiting or held delivery; null when no delivery waits. */
  readonly oldestWaitingAt: Date | null;
  /** Since when the circuit of its endpoint is open, by the retry clock; null while it is closed. */
  readonly pausedSince: Date | null;
  /** The API version of the shop's payloads, as it is served today. */
  readonly payloadVersion: string;
}

const DAY_MS = 86_400_000;
/** Maximum number of deliveries that count for one subscription. So the statement reads at most 20,000 for a shop. */
const MAX_COUNTED = 200;

interface Row extends Subscription, Omit<Health, 'oldestWaitingAt' | 'payloadVersion'> {
  /** The oldest waiting or held delivery. */
  readonly oldestId: string | null;
  readonly chosenVersion: string | null;
}

/**
 * Returns subscriptions of a shop with their health, by ascending id: all, or the one with this id if it exists. One
 * statement, over indexes only.
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

// A waiting delivery that was attempted, and after a change at the new address. Only then its attempts are read.
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
