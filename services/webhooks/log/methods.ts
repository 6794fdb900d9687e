import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import {
  type ListDeliveriesRequest,
  RetryDeliveriesRequestSchema,
  type WebhooksService,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { invalidField } from '../../platform/errors.ts';
import { keyUseOf } from '../../platform/idempotency.ts';
import { optionalIdempotencyKey, parseInput } from '../../platform/input.ts';
import { bindCursor, placeInCursor } from '../../platform/list-cursor.ts';
import type { RetryClock } from '../delivery/attempt/retry-clock.ts';
import { retryWaiting } from '../delivery/queue/retry-waiting.ts';
import { countMessage, deliveryMessage } from '../views.ts';
import { countDeliveries } from './count.ts';
import { deliveryNotFound, parseWebhookId } from './delivery.ts';
import { filterOfList, parseFilter } from './filter.ts';
import { deliveriesOfEvent, getDelivery, relatedDeliveries } from './get.ts';
import { lastTests } from './last-tests.ts';
import { listDeliveries, type PageRequest } from './list.ts';
import { replayDelivery } from './replay.ts';
import { countByHour, requireLogged } from './stats.ts';

export interface LogContext {
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
        const found = await deliveriesOfEvent(pool, { shopId, eventId: request.eventId });
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
