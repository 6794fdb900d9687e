import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type {
  ListDeliveriesRequest,
  WebhooksService,
} from '../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import {
  type Delivery,
  DeliveryStateSchema,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { DELIVERY_STATES, TOPICS, TRIGGERS } from '../../../services/contract/vocabulary.ts';
import { enumText } from '../../../services/platform/enum-text.ts';
import { reasonOf } from '../../../services/platform/errors.ts';
import { type ActionContext, callerOf, sent } from '../../actions/context.ts';
import { replayDelivery, retryDeliveries } from '../../actions/deliveries.ts';
import { deliveriesOfEvent, deliveryStats, getDelivery } from '../../actions/delivery-log.ts';
import { callOf } from '../call.ts';
import {
  filterId,
  idOf,
  keyOf,
  optionalWord,
  pageSizeOf,
  timeOf,
  upTo,
  wordOf,
} from '../fields.ts';
import { attemptView, countView, deliveryView } from '../views/delivery.ts';

const STATE = enumText(DeliveryStateSchema);
/** Maximum length of a search text. It is longer than any webhook-id or event id. Characters. */
const MAX_SEARCH = 100;

/** The methods about deliveries. */
export function deliveryMethods() {
  return {
    async listDeliveries(request, context) {
      const call = callOf(context);
      const search = upTo('search', request.search.trim(), MAX_SEARCH);
      if (search !== '') {
        const found = await searchDeliveries(call.context, search);
        return { deliveries: found.map(deliveryView), nextCursor: '' };
      }
      const page = await call.context.services.webhooks.listDeliveries({
        ...callerOf(call.context),
        ...filterOf(request),
        pageSize: pageSizeOf(request.pageSize),
        cursor: request.cursor,
        includeCount: true,
      });
      return {
        deliveries: page.deliveries.map(deliveryView),
        nextCursor: page.nextCursor,
        ...(page.count && { count: countView(page.count) }),
      };
    },

    async getDelivery({ deliveryId }, context) {
      const found = await getDelivery(callOf(context).context, deliveryId);
      const delivery = sent(found.delivery, 'delivery');
      return {
        delivery: deliveryView(delivery),
        payload: Buffer.from(delivery.body).toString('utf8'),
        attempts: delivery.attempts.map(attemptView),
        related: found.related.map(deliveryView),
      };
    },

    async getDeliveryStats({ webhookId, hours }, context) {
      const o = { subscriptionId: filterId('webhook_id', webhookId), hours };
      const counted = await deliveryStats(callOf(context).context, o);
      return {
        hours: counted.map(({ startsAt, delivered, failed, waiting, retrying, more }) => ({
          delivered,
          failed,
          waiting,
          retrying,
          more,
          ...(startsAt && { startsAt }),
        })),
      };
    },

    async retryDeliveries({ webhookId, idempotencyKey }, context) {
      const call = callOf(context);
      const { count, more } = await retryDeliveries(call.context, {
        subscriptionId: idOf(webhookId, 'webhook'),
        idempotencyKey: keyOf(call, idempotencyKey),
      });
      return { count, more };
    },

    async replayDelivery({ deliveryId, idempotencyKey }, context) {
      const call = callOf(context);
      const delivery = await replayDelivery(call.context, {
        subscriptionId: 0n,
        deliveryId,
        idempotencyKey: keyOf(call, idempotencyKey),
      });
      return { delivery: deliveryView(delivery) };
    },
  } satisfies Partial<ServiceImpl<typeof WebhooksService>>;
}

function filterOf(request: ListDeliveriesRequest) {
  const [from, to] = [timeOf('from', request.from), timeOf('to', request.to)];
  return {
    subscriptionId: filterId('webhook_id', request.webhookId),
    states: request.states.map((state) => STATE.fromText(wordOf('states', state, DELIVERY_STATES))),
    trigger: optionalWord('trigger', request.trigger, TRIGGERS) ?? '',
    topic: optionalWord('topic', request.topic, TOPICS) ?? '',
    returnId: filterId('return_id', request.returnId),
    replayId: filterId('replay_id', request.replayId),
    ...(from && { from: timestampFromDate(from) }),
    ...(to && { to: timestampFromDate(to) }),
  };
}

/** The delivery with this webhook-id, or the deliveries of the event with this id. */
async function searchDeliveries(context: ActionContext, text: string): Promise<Delivery[]> {
  try {
    return [sent((await getDelivery(context, text)).delivery, 'delivery')];
  } catch (error) {
    if (reasonOf(error) !== ErrorReason.DELIVERY_NOT_FOUND) throw error;
    return deliveriesOfEvent(context, text);
  }
}
