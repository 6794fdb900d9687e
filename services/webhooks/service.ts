import type { ConnectRouter, ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import {
  type DeliveryState,
  type ListDeliveriesRequest,
  WebhooksService,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { TRIGGERS } from '../contract/limits.ts';
import { invalidField } from '../platform/errors.ts';
import { inTransaction } from '../platform/postgres.ts';
import type { RetryClock } from './delivery/retry-clock.ts';
import type { UrlPolicy } from './guard/guard.ts';
import { type DeliveryFilter, listDeliveries, replayDelivery } from './log/delivery-store.ts';
import type { Keyring } from './subscriptions/keyring.ts';
import { payloadVersion, setPayloadVersion } from './subscriptions/payload-version.ts';
import { addSecret, rotateSecret, secretsOf } from './subscriptions/secrets.ts';
import { parseFields, requireOneOf } from './subscriptions/subscription.ts';
import {
  createSubscription,
  deleteSubscription,
  getSubscription,
  listSubscriptions,
  lockSubscription,
  updateSubscription,
} from './subscriptions/subscription-store.ts';
import { addTestDelivery } from './test-event.ts';
import { deliveryMessage, deliveryStateText, secretMessage, subscriptionMessage } from './views.ts';

export interface WebhooksContext {
  readonly pool: pg.Pool;
  readonly policy: UrlPolicy;
  readonly keyring: Keyring;
  readonly clock: RetryClock;
  /** Today in the version calendar. */
  readonly today: () => Date;
  /** Something may be due. */
  readonly wake: () => void;
}

const DEFAULT_PAGE = 50;
const MAX_PAGE = 200;
const DEFAULT_OVERLAP_HOURS = 24;
const MAX_OVERLAP_HOURS = 168;

/** The gRPC face of the service: parse, call, answer. */
export function webhooksRoutes(c: WebhooksContext) {
  return (router: ConnectRouter): void => {
    router.service(WebhooksService, {
      ...subscriptionMethods(c),
      ...secretMethods(c),
      ...deliveryMethods(c),
      ...versionMethods(c),
    });
  };
}

type Methods = Partial<ServiceImpl<typeof WebhooksService>>;

function subscriptionMethods({ pool, policy, keyring, clock, wake }: WebhooksContext) {
  return {
    async createSubscription(request) {
      const { shopId } = request;
      const { subscription, secret } = await createSubscription(pool, shopId, {
        fields: parseFields(request, policy),
        withSecret: (tx, subscriptionId) => addSecret(tx, { shopId, subscriptionId }, keyring),
      });
      return { subscription: subscriptionMessage(subscription), secret: secret.value };
    },
    async updateSubscription(request) {
      const target = { shopId: request.shopId, id: request.subscriptionId };
      const fields = parseFields(request, policy);
      const offsetMs = clock.offsetMs();
      const subscription = await updateSubscription(pool, target, { fields, offsetMs });
      wake();
      return { subscription: subscriptionMessage(subscription) };
    },
    async deleteSubscription({ shopId, subscriptionId }) {
      await deleteSubscription(pool, shopId, subscriptionId);
      return {};
    },
    async listSubscriptions({ shopId }) {
      return { subscriptions: (await listSubscriptions(pool, shopId)).map(subscriptionMessage) };
    },
  } satisfies Methods;
}

function secretMethods({ pool, keyring }: WebhooksContext) {
  return {
    async revealSecret({ shopId, subscriptionId }) {
      await getSubscription(pool, shopId, subscriptionId);
      const secrets = await secretsOf(pool, { shopId, subscriptionId }, keyring);
      return { secrets: secrets.map(secretMessage) };
    },
    async rotateSecret({ shopId, subscriptionId, overlapHours = DEFAULT_OVERLAP_HOURS }) {
      if (overlapHours < 0 || overlapHours > MAX_OVERLAP_HOURS) {
        throw invalidField('overlap_hours', `must be 0 to ${MAX_OVERLAP_HOURS}`);
      }
      const owner = { shopId, subscriptionId };
      const secret = await inTransaction(pool, async (tx) => {
        await lockSubscription(tx, shopId, subscriptionId);
        return rotateSecret(tx, owner, { keyring, overlapHours });
      });
      return { secret: secretMessage(secret) };
    },
  } satisfies Methods;
}

function deliveryMethods({ pool, clock, today, wake }: WebhooksContext) {
  return {
    async listDeliveries(request) {
      const { deliveries, nextCursor } = await listDeliveries(pool, parseFilter(request));
      return { deliveries: deliveries.map(deliveryMessage), nextCursor };
    },
    async replayDelivery({ shopId, deliveryId: webhookId }) {
      const offsetMs = clock.offsetMs();
      const delivery = await replayDelivery(pool, { shopId, webhookId, offsetMs });
      wake();
      return { delivery: deliveryMessage(delivery) };
    },
    async sendTest({ shopId, subscriptionId, trigger }) {
      const at = { today: today(), offsetMs: clock.offsetMs() };
      const delivery = await addTestDelivery(pool, { shopId, subscriptionId, trigger, ...at });
      wake();
      return { delivery: deliveryMessage(delivery) };
    },
  } satisfies Methods;
}

function versionMethods({ pool, today }: WebhooksContext) {
  return {
    async getPayloadVersion({ shopId }) {
      return { version: await payloadVersion(pool, shopId, today()) };
    },
    async setPayloadVersion({ shopId, version }) {
      await setPayloadVersion(pool, shopId, { version, today: today() });
      return { version };
    },
  } satisfies Methods;
}

function parseFilter(request: ListDeliveriesRequest): DeliveryFilter {
  const { pageSize, trigger } = request;
  if (pageSize < 0 || pageSize > MAX_PAGE) {
    throw invalidField('page_size', `must be 1 to ${MAX_PAGE}`);
  }
  if (trigger !== '') requireOneOf('trigger', trigger, TRIGGERS);
  return {
    shopId: request.shopId,
    subscriptionId: request.subscriptionId || null,
    states: request.states.map(parseState),
    trigger,
    returnId: request.returnId || null,
    cursor: request.cursor,
    limit: pageSize || DEFAULT_PAGE,
    withBodies: request.includeBodies,
  };
}

function parseState(state: DeliveryState): string {
  try {
    return deliveryStateText.toText(state);
  } catch {
    throw invalidField('states', 'must be states of a delivery');
  }
}
