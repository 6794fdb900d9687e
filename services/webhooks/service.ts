import { hash, randomUUID } from 'node:crypto';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ConnectRouter, ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { type Actor, Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  CreateSubscriptionRequestSchema,
  RotateSecretRequestSchema,
  SendTestRequestSchema,
  UpdateSubscriptionRequestSchema,
  WebhooksService,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { SECRET_OVERLAP_HOURS_DEFAULT, SECRET_OVERLAP_HOURS_MAX } from '../contract/limits.ts';
import { sampleEvent } from '../contract/sample-event.ts';
import { payloadVersionServed, supportedVersions } from '../contract/versions.ts';
import { TRIGGERS } from '../contract/vocabulary.ts';
import type { UrlPolicy } from '../platform/outbound/guard.ts';
import { eventIdAt } from '../platform/outbox/event-id.ts';
import { inTransaction, type Queryable } from '../platform/postgres/postgres.ts';
import type { Keyring } from '../platform/security/keyring.ts';
import { currentTraceparent } from '../platform/telemetry/telemetry.ts';
import { actorKindText } from '../platform/values/actor.ts';
import { invalidField, stateForbids } from '../platform/values/errors.ts';
import { type KeyUse, keyUseOf, oncePerKey } from '../platform/values/idempotency.ts';
import { MAX_ID } from '../platform/values/ids.ts';
import { announceRevealed } from './announce.ts';
import type { RetryClock } from './delivery/attempt/retry-schedule.ts';
import { notifyDue } from './delivery/queue/notify.ts';
import { lockQueue } from './delivery/queue/queue-changes.ts';
import { deliveryIdOf, type EventKey } from './delivery-id.ts';
import { insertDeliveries } from './fan-out/insert.ts';
import { shapeBody } from './fan-out/shape.ts';
import { type JobsContext, jobMethods } from './jobs/methods.ts';
import { backlogsOf, lastFailure } from './log/backlogs.ts';
import { getDelivery } from './log/get.ts';
import { logMethods } from './log/methods.ts';
import type { LoggedDelivery } from './log/rows.ts';
import { readWithHealth } from './subscriptions/health.ts';
import {
  payloadVersion,
  servedPayloadVersion,
  setPayloadVersion,
} from './subscriptions/payload-version.ts';
import { setSandbox } from './subscriptions/sandbox.ts';
import { noteSecretShown, SECRETS } from './subscriptions/secrets.ts';
import {
  parseChange,
  parseExpected,
  parseFields,
  subscriptionNotFound,
} from './subscriptions/subscription.ts';
import { limitedDomainOf } from './subscriptions/subscription-limits.ts';
import {
  createSubscription,
  deleteSubscription,
  getSubscription,
  listSubscriptions,
  lockSubscription,
  lockSubscriptionShared,
  updateSubscription,
} from './subscriptions/subscription-store.ts';
import { chosenMessage, deliveryMessage, secretMessage, subscriptionMessage } from './views.ts';

interface WebhooksContext {
  readonly pool: pg.Pool;
  readonly policy: UrlPolicy;
  readonly keyring: Keyring;
  readonly clock: RetryClock;
  /** The current day of the version calendar. */
  readonly today: () => Date;
  /**
   * Called when waiting deliveries may have to expire or be dropped. For due deliveries, the notification at the commit
   * is enough.
   */
  readonly wake: () => void;
  readonly jobs: Omit<JobsContext, 'pool'>;
}

/** The gRPC methods of the service. Each parses its request, calls a function, and returns a message. */
export function webhooksRoutes(c: WebhooksContext) {
  return (router: ConnectRouter): void => {
    router.service(WebhooksService, {
      ...subscriptionMethods(c),
      ...secretMethods(c),
      ...logMethods(c),
      ...jobMethods({ ...c, ...c.jobs }),
      ...testMethods(c),
      ...shopMethods(c),
    });
  };
}

type Methods = Partial<ServiceImpl<typeof WebhooksService>>;

function subscriptionMethods({ pool, policy, keyring, clock, wake, today }: WebhooksContext) {
  const limitedDomain = limitedDomainOf(policy);
  return {
    async createSubscription(request) {
      const { shopId } = request;
      const payloadVersion = await servedPayloadVersion(pool, shopId, today());
      const { subscription, secret, equal } = await createSubscription(pool, shopId, {
        fields: parseFields(request, policy),
        offsetMs: clock.offsetMs(),
        limitedDomain,
        use: keyUseOf('CreateSubscription', CreateSubscriptionRequestSchema, request),
        keyring,
      });
      const message = subscriptionMessage(subscription);
      return {
        subscription: message,
        secret: secret.value,
        payloadVersion,
        equalSubscriptionIds: equal,
      };
    },
    async updateSubscription(request) {
      const target = { shopId: request.shopId, id: request.subscriptionId };
      const fields = parseChange(request, policy);
      // The key is stored with the id before the subscription is looked up, and only ids can be stored.
      if (target.id < 1n || target.id > MAX_ID) throw subscriptionNotFound(target.id);
      const use = keyUseOf('UpdateSubscription', UpdateSubscriptionRequestSchema, request);
      const expected = parseExpected(request.expected);
      const change = { fields, expected, offsetMs: clock.offsetMs(), limitedDomain, use };
      const payloadVersion = await servedPayloadVersion(pool, request.shopId, today());
      const { subscription, previous, equal } = await updateSubscription(pool, target, change);
      wake();
      return {
        subscription: subscriptionMessage(subscription),
        payloadVersion,
        equalSubscriptionIds: equal,
        ...(previous && { previous: chosenMessage(previous) }),
      };
    },
    async deleteSubscription({ shopId, subscriptionId }) {
      const previous = await deleteSubscription(pool, shopId, subscriptionId);
      wake();
      return { previous: chosenMessage(previous) };
    },
    async getSubscription({ shopId, subscriptionId, includeBacklog }) {
      const [found] = await readWithHealth(pool, { shopId, subscriptionId, today: today() });
      if (!found) throw subscriptionNotFound(subscriptionId);
      const backlogs = includeBacklog ? await backlogsOf(pool, shopId, subscriptionId) : undefined;
      const isFailing = found.failures > 0;
      const failure = isFailing ? await lastFailure(pool, { shopId, subscriptionId }) : undefined;
      const more = { health: found, backlog: backlogs?.get(subscriptionId), failure };
      return { subscription: subscriptionMessage(found, more) };
    },
    async listSubscriptions({ shopId, includeBacklog, includeHealth }) {
      const backlogs = includeBacklog ? await backlogsOf(pool, shopId) : undefined;
      if (includeHealth) {
        const all = await readWithHealth(pool, { shopId, today: today() });
        return {
          subscriptions: all.map((one) =>
            subscriptionMessage(one, { health: one, backlog: backlogs?.get(one.id) }),
          ),
        };
      }
      const all = await listSubscriptions(pool, shopId);
      return {
        subscriptions: all.map((one) =>
          subscriptionMessage(one, { backlog: backlogs?.get(one.id) }),
        ),
      };
    },
  } satisfies Methods;
}

/**
 * The actor of a call, in the form of columns. The server's interceptor has already rejected calls without an actor.
 */
function storedActor(actor: Actor | undefined) {
  const { kind = Actor_Kind.UNSPECIFIED, id = '', name = '' } = actor ?? {};
  return { kind: actorKindText.toText(kind), id, name };
}

function secretMethods({ pool, keyring }: WebhooksContext) {
  return {
    async revealSecret({ shopId, subscriptionId, actor }) {
      const owner = { shopId, subscriptionId };
      const secrets = await inTransaction(pool, async (tx) => {
        await noteSecretShown(tx, { shopId, id: subscriptionId }, storedActor(actor));
        await announceRevealed(tx, owner, { actor, rotated: false });
        return SECRETS.list(tx, owner, keyring);
      });
      return { secrets: secrets.map(secretMessage) };
    },
    async rotateSecret(request) {
      const { shopId, subscriptionId, overlapHours = SECRET_OVERLAP_HOURS_DEFAULT } = request;
      if (overlapHours < 0 || overlapHours > SECRET_OVERLAP_HOURS_MAX) {
        throw invalidField('overlap_hours', `must be 0 to ${SECRET_OVERLAP_HOURS_MAX}`);
      }
      const owner = { shopId, subscriptionId };
      const use = keyUseOf('RotateSecret', RotateSecretRequestSchema, request);
      const secret = await inTransaction(pool, async (tx) => {
        const { id } = await oncePerKey(tx, use, async () => {
          await lockSubscription(tx, shopId, subscriptionId);
          await noteSecretShown(tx, { shopId, id: subscriptionId }, storedActor(request.actor));
          await announceRevealed(tx, owner, { actor: request.actor, rotated: true });
          return (await SECRETS.rotate(tx, owner, { keyring, overlapHours })).id;
        });
        await getSubscription(tx, shopId, subscriptionId);
        return SECRETS.earlier(tx, owner, { keyring, id });
      });
      return { secret: secretMessage(secret) };
    },
    async endFormerSecrets({ shopId, subscriptionId }) {
      const ended = await inTransaction(pool, async (tx) => {
        await lockSubscription(tx, shopId, subscriptionId);
        return SECRETS.endFormer(tx, { shopId, subscriptionId });
      });
      return { ended };
    },
  } satisfies Methods;
}

function testMethods({ pool, clock, today }: WebhooksContext) {
  return {
    async sendTest(request) {
      const { shopId, subscriptionId, trigger, version } = request;
      const use = keyUseOf('SendTest', SendTestRequestSchema, request);
      const at = { today: today(), offsetMs: clock.offsetMs() };
      const delivery = await sendTest(pool, {
        shopId,
        subscriptionId,
        trigger,
        version,
        use,
        ...at,
      });
      return { delivery: deliveryMessage(delivery) };
    },
  } satisfies Methods;
}

function shopMethods({ pool, today }: WebhooksContext) {
  return {
    async getPayloadVersion({ shopId }) {
      return { version: await servedPayloadVersion(pool, shopId, today()) };
    },
    async setPayloadVersion({ shopId, version, expectedVersion: expected }) {
      const previous = await setPayloadVersion(pool, shopId, { version, expected, today: today() });
      return { version, previous };
    },
    async setSandbox({ shopId, sandbox }) {
      await setSandbox(pool, { shopId, sandbox });
      return {};
    },
  } satisfies Methods;
}

interface TestEvent {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
  /** A trigger that the subscription's topic delivers. Empty for the trigger of the subscription. */
  readonly trigger: string;
  /** A supported API version. Empty for the version of the shop. */
  readonly version: string;
  readonly today: Date;
  /** Offset of the retry clock. */
  readonly offsetMs: number;
}

/**
 * Writes a delivery with documented sample data to one subscription. It is sent like every other delivery. A repeat
 * with the same idempotency key returns this delivery and sends nothing.
 *
 * @throws DomainError NOT_FOUND, for a repeat also when the delivery is no longer in the log; INVALID_ARGUMENT when the
 *   topic does not deliver the trigger; FAILED_PRECONDITION when the subscription is inactive; IDEMPOTENCY_CONFLICT.
 */
function sendTest(
  pool: pg.Pool,
  o: TestEvent & { readonly use: KeyUse | undefined },
): Promise<LoggedDelivery> {
  const rest = o.use ? uuidOf(o.use) : randomUUID();
  return inTransaction(pool, async (tx) => {
    // The result of a key is stored as a number, here the time of the event. It is enough to compute the id of the
    // delivery, because the request determines the event and the subscription.
    const { id: occurredAtMs } = await oncePerKey(tx, o.use, async () => {
      const occurredAt = new Date();
      await addTestDelivery(tx, o, { eventId: eventIdAt(occurredAt, rest), occurredAt });
      return BigInt(occurredAt.getTime());
    });
    const occurredAt = new Date(Number(occurredAtMs));
    const event = { eventId: eventIdAt(occurredAt, rest), occurredAt };
    const id = deliveryIdOf(event, o.subscriptionId);
    return getDelivery(tx, { shopId: o.shopId, id, withBody: false });
  });
}

/** Returns a UUID (RFC 9562, version 8). It is the same for every use of a key. */
function uuidOf({ shopId, operation, key }: KeyUse): string {
  const hex = hash('sha256', `${shopId} ${operation} ${key}`, 'hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(12, 15)}-8${hex.slice(15, 18)}-${hex.slice(18, 30)}`;
}

async function addTestDelivery(
  tx: Queryable,
  o: TestEvent,
  { eventId, occurredAt }: EventKey,
): Promise<void> {
  const subscription = await lockSubscriptionShared(tx, o);
  if (!subscription) throw subscriptionNotFound(o.subscriptionId);
  const requested = o.trigger === '' ? subscription.trigger : o.trigger;
  const trigger = TRIGGERS.find((name) => name === requested);
  if (!trigger) throw invalidField('trigger', `must be one of ${TRIGGERS.join(', ')}`);
  if (!subscription.isActive) throw stateForbids('the subscription is inactive');
  const stored = o.version || (await payloadVersion(tx, o.shopId, o.today));
  const { version } = payloadVersionServed(stored, o.today);
  if (o.version !== '' && version !== o.version) {
    throw invalidField('version', `must be one of ${supportedVersions(o.today).join(', ')}`);
  }
  const event = {
    ...sampleEvent(trigger, o.shopId, eventId),
    occurredAt: timestampFromDate(occurredAt),
    traceparent: currentTraceparent(),
  };
  const { topic } = subscription;
  const body = shapeBody(event, { topic, version, isRedacted: false });
  if (!body) throw invalidField('trigger', `is not delivered to topic ${topic}`);
  const { subscriptionId } = o;
  const delivery = { event, subscriptionId, topic, version, body, isTest: true };
  await lockQueue(tx, o);
  await insertDeliveries(tx, [delivery], o);
  await notifyDue(tx, [o], { isChange: false });
}
