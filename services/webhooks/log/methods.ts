import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import {
  type ListDeliveriesRequest,
  RetryDeliveriesRequestSchema,
  type WebhooksService,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { inTransaction, type Queryable } from '../../platform/postgres/postgres.ts';
import { rowsOf, sql, unnamed } from '../../platform/postgres/sql.ts';
import { invalidField, stateForbids } from '../../platform/values/errors.ts';
import { keyUseOf } from '../../platform/values/idempotency.ts';
import { optionalIdempotencyKey, parseInput } from '../../platform/values/input.ts';
import { bindCursor, placeInCursor } from '../../platform/values/list-cursor.ts';
import type { RetryClock } from '../delivery/attempt/retry-schedule.ts';
import { HAS_BODY, requeue } from '../delivery/queue/requeue.ts';
import { retryWaiting } from '../delivery/queue/retry-waiting.ts';
import { subscriptionNotFound } from '../subscriptions/subscription.ts';
import { countMessage, deliveryMessage } from '../views.ts';
import { deliveryNotFound, parseWebhookId } from './delivery.ts';
import { filterOfList, idAt, parseFilter } from './filter.ts';
import { deliveriesNamed, getDelivery, lastTests, relatedDeliveries } from './get.ts';
import { countDeliveries, listDeliveries, type PageRequest } from './list.ts';
import type { LoggedDelivery } from './rows.ts';

interface LogContext {
  readonly pool: pg.Pool;
  readonly clock: RetryClock;
}

const DEFAULT_PAGE = 50;
const MAX_PAGE = 200;
const DEFAULT_HOURS = 24;
const MAX_HOURS = 168;
/** A version of payloads. */
const VERSION = /^\d{4}-\d{2}$/;
const keyed = z.object({ idempotencyKey: optionalIdempotencyKey });

/** The RPCs of the log, and the RPC that replays one delivery. */
export function logMethods({ pool, clock }: LogContext) {
  return {
    async listDeliveries(request) {
      const page = parsePage(request);
      const { shopId, liveOnly } = request;
      if (request.eventId !== '') {
        const found = await deliveriesNamed(pool, { shopId, name: request.eventId });
        return { deliveries: found.map(deliveryMessage), nextCursor: '' };
      }
      const parsed = parseFilter({ ...request, jobId: request.replayId });
      const list = { shopId, ...parsed };
      const cursor = placeInCursor(page.cursor, list);
      const filter = await filterOfList(pool, shopId, parsed, { liveOnly });
      const isCounted = request.includeCount && cursor === '';
      const [{ deliveries, nextCursor }, count] = await Promise.all([
        listDeliveries(pool, filter, { ...page, cursor, liveOnly }),
        isCounted ? countDeliveries(pool, filter) : undefined,
      ]);
      return {
        ...(count && { count: countMessage(count) }),
        deliveries: deliveries.map(deliveryMessage),
        nextCursor: bindCursor(nextCursor, list),
      };
    },
    async getDelivery({ shopId, deliveryId, includeBody: withBody }) {
      const id = parseWebhookId(deliveryId);
      if (id === undefined) throw deliveryNotFound(deliveryId);
      const found = await getDelivery(pool, { shopId, id, withBody });
      const { eventId } = found.row;
      const related = await relatedDeliveries(pool, { shopId, id, eventId });
      return { delivery: deliveryMessage(found), related: related.map(deliveryMessage) };
    },
    async listLastTests({ shopId, version }) {
      if (!VERSION.test(version))
        throw invalidField('version', 'must be a version, such as 2026-10');
      const found = await lastTests(pool, { shopId, version });
      return { deliveries: found.map(deliveryMessage) };
    },
    async getDeliveryStats({ shopId, subscriptionId, hours }) {
      if (hours < 0 || hours > MAX_HOURS) throw invalidField('hours', `must be 1 to ${MAX_HOURS}`);
      if (subscriptionId !== 0n) await requireLogged(pool, { shopId, subscriptionId });
      const counted = await countByHour(pool, {
        shopId,
        subscriptionId: subscriptionId || null,
        hours: hours || DEFAULT_HOURS,
        now: new Date(),
      });
      return {
        hours: counted.map(({ startsAt, isMore, ...count }) => ({
          ...count,
          startsAt: timestampFromDate(startsAt),
          more: isMore,
        })),
      };
    },
    async retryDeliveries(request) {
      const { shopId, subscriptionId } = request;
      const use = keyUseOf('RetryDeliveries', RetryDeliveriesRequestSchema, request);
      const retry = { offsetMs: clock.offsetMs(), use };
      const { count, isMore } = await retryWaiting(pool, { shopId, subscriptionId }, retry);
      return { count, more: isMore };
    },
    async replayDelivery(request) {
      const { idempotencyKey: key } = parseInput(keyed, request);
      const { shopId, deliveryId: webhookId, subscriptionId } = request;
      const replay = { shopId, webhookId, subscriptionId, key, offsetMs: clock.offsetMs() };
      const delivery = await replayDelivery(pool, replay);
      return { delivery: deliveryMessage(delivery) };
    },
  } satisfies Partial<ServiceImpl<typeof WebhooksService>>;
}

function parsePage(request: ListDeliveriesRequest): PageRequest {
  const { pageSize, cursor, includeBodies: withBodies } = request;
  if (pageSize < 0 || pageSize > MAX_PAGE) {
    throw invalidField('page_size', `must be 1 to ${MAX_PAGE}`);
  }
  return { cursor, limit: pageSize || DEFAULT_PAGE, withBodies };
}

/**
 * Queues a finished delivery again. It gets the whole retry schedule. It keeps its `webhook-id` and bytes, and is sent
 * to the current address of the subscription. It is held when the subscription is inactive.
 *
 * @param o.subscriptionId the subscription of the delivery; it must exist. 0 allows any subscription.
 * @param o.key idempotency key. A repeated call returns the delivery of the first call in its current state.
 * @param o.offsetMs offset of the retry clock.
 * @throws DomainError NOT_FOUND; FAILED_PRECONDITION when the delivery already waits, its payload is gone, or its
 *   subscription was deleted.
 */
export function replayDelivery(
  pool: pg.Pool,
  o: {
    shopId: bigint;
    webhookId: string;
    subscriptionId: bigint;
    key: string | undefined;
    offsetMs: number;
  },
): Promise<LoggedDelivery> {
  const id = parseWebhookId(o.webhookId);
  if (id === undefined) throw deliveryNotFound(o.webhookId);
  const { shopId, key, offsetMs } = o;
  return inTransaction(pool, async (tx) => {
    const found = await readForReplay(tx, shopId, id);
    const isAnother = o.subscriptionId !== 0n && found?.subscriptionId !== o.subscriptionId;
    if (!found || isAnother) throw deliveryNotFound(o.webhookId);
    if (found.isDeleted && o.subscriptionId !== 0n) throw subscriptionNotFound(o.subscriptionId);
    requireReplayable(found, key);
    const started = await requeue(tx, { shopId, ids: [id], offsetMs, key });
    // Another transaction was first: an earlier try of this call, another replay, or a redaction.
    if (started.length === 0) requireReplayable(await readForReplay(tx, shopId, id), key);
    return getDelivery(tx, { shopId, id, withBody: false });
  });
}

interface Replayable {
  readonly subscriptionId: bigint;
  readonly isUnfinished: boolean;
  readonly isDeleted: boolean;
  readonly hasBody: boolean;
  readonly replayKey: string | null;
}

/** Reads the delivery. First locks its subscription, which then does not change before the commit. */
async function readForReplay(
  tx: Queryable,
  shopId: bigint,
  id: string,
): Promise<Replayable | undefined> {
  await tx.query(
    `select from subscriptions s
      where s.shop_id = $1 and s.id = (select subscription_id from deliveries where shop_id = $1 and id = $2)
        for share`,
    [shopId, id],
  );
  const { rows } = await tx.query<Replayable>(
    `select d.subscription_id as "subscriptionId", d.ended is null as "isUnfinished",
            s.deleted_at is not null as "isDeleted", ${HAS_BODY} is true as "hasBody",
            d.replay_key as "replayKey"
       from deliveries d
       join subscriptions s on s.shop_id = d.shop_id and s.id = d.subscription_id
       join payloads p on p.shop_id = d.shop_id and p.id = d.payload_id
      where d.shop_id = $1 and d.id = $2`,
    [shopId, id],
  );
  return rows[0];
}

function requireReplayable(found: Replayable | undefined, key: string | undefined): void {
  if (key !== undefined && found?.replayKey === key) return;
  if (found?.isDeleted) throw stateForbids('the subscription of this delivery was deleted');
  if (found?.isUnfinished) throw stateForbids('the delivery is waiting already');
  if (!found?.hasBody) throw stateForbids('the payload of this delivery is gone');
}

/** The numbers of deliveries whose events occurred in one hour. */
interface HourCount {
  readonly startsAt: Date;
  readonly delivered: number;
  /** Number of deliveries that are exhausted or have expired. */
  readonly failed: number;
  /** Number of deliveries that wait or are held. */
  readonly waiting: number;
  /** Number of those that wait and whose last attempt failed. */
  readonly retrying: number;
  /** True when the hour had more deliveries than were counted. */
  readonly isMore: boolean;
}

const HOUR_MS = 3_600_000;
/**
 * Maximum number of deliveries of an hour that are counted, newest first. So the number of rows that the statement
 * reads is bounded.
 */
const MAX_OF_HOUR = 10_000;

interface Hour {
  readonly n: number;
  readonly first: string;
  readonly end: string;
}

const hourRows = rowsOf<Hour>({
  n: ['integer', ({ n }) => n],
  first: ['uuid', ({ first }) => first],
  end_id: ['uuid', ({ end }) => end],
});

/**
 * Counts the deliveries of the last hours, oldest first. Test events do not count. It is one statement over ranges of
 * ids.
 *
 * @param o.subscriptionId null for all subscriptions.
 * @param o.hours number of hours, including the current one.
 */
export async function countByHour(
  db: Queryable,
  o: {
    readonly shopId: bigint;
    readonly subscriptionId: bigint | null;
    readonly hours: number;
    readonly now: Date;
  },
): Promise<HourCount[]> {
  const current = Math.floor(o.now.getTime() / HOUR_MS) * HOUR_MS;
  const starts = Array.from(
    { length: o.hours },
    (_, n) => new Date(current - (o.hours - 1 - n) * HOUR_MS),
  );
  const hours = starts.map((start, n) => ({
    n,
    first: idAt(start),
    end: idAt(new Date(start.getTime() + HOUR_MS)),
  }));
  const { rows } = await db.query<Omit<HourCount, 'startsAt'> & { n: number }>(
    unnamed(sql`
     select h.n, c.delivered, c.failed, c.waiting, c.retrying, c.counted >= ${MAX_OF_HOUR} as "isMore"
       from ${hourRows('h', hours)}
      cross join lateral (
        select count(*)::integer as counted,
               count(*) filter (where d.ended = 'delivered')::integer as delivered,
               count(*) filter (where d.ended in ('exhausted', 'expired'))::integer as failed,
               count(*) filter (where d.ended is null)::integer as waiting,
               count(*) filter (where d.ended is null and (
                 select q.round_attempts from queue q
                  where q.shop_id = ${o.shopId} and q.subscription_id = d.subscription_id and q.id = d.id) > 0
               )::integer as retrying
          from (select l.id, l.subscription_id, l.ended from deliveries l
                 where l.shop_id = ${o.shopId} and l.id >= h.first and l.id < h.end_id
                   and (${o.subscriptionId}::bigint is null or l.subscription_id = ${o.subscriptionId}) and not l.is_test
                 order by l.id desc limit ${MAX_OF_HOUR}) d) c
      order by h.n`),
  );
  return rows.flatMap(({ n, ...count }) => {
    const startsAt = starts[n];
    return startsAt ? [{ startsAt, ...count }] : [];
  });
}

/**
 * Requires that the shop has or had this subscription. The log of a deleted one is kept. @throws DomainError NOT_FOUND.
 */
async function requireLogged(
  db: Queryable,
  { shopId, subscriptionId }: { readonly shopId: bigint; readonly subscriptionId: bigint },
): Promise<void> {
  const { rowCount } = await db.query('select from subscriptions where shop_id = $1 and id = $2', [
    shopId,
    subscriptionId,
  ]);
  if (rowCount !== 1) throw subscriptionNotFound(subscriptionId);
}
