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
import { actorKindText } from '../platform/actor.ts';
import { invalidField } from '../platform/errors.ts';
import { keyUseOf, oncePerKey } from '../platform/idempotency.ts';
import { MAX_ID } from '../platform/ids.ts';
import type { Keyring } from '../platform/keyring.ts';
import type { UrlPolicy } from '../platform/outbound/guard.ts';
import { inTransaction } from '../platform/postgres.ts';
import { announceRevealed } from './announce/secrets.ts';
import type { RetryClock } from './delivery/attempt/retry-clock.ts';
import { type JobsContext, jobMethods } from './jobs/methods.ts';
import { backlogsOf } from './log/backlogs.ts';
import { lastFailure } from './log/last-failure.ts';
import { logMethods } from './log/methods.ts';
import { readWithHealth } from './subscriptions/health.ts';
import { servedPayloadVersion, setPayloadVersion } from './subscriptions/payload-version.ts';
import { setSandbox } from './subscriptions/sandbox.ts';
import { noteSecretShown } from './subscriptions/secret-shown.ts';
import { SECRETS } from './subscriptions/secrets.ts';
import { parseChange, parseFields, subscriptionNotFound } from './subscriptions/subscription.ts';
import { limitedHostOf } from './subscriptions/subscription-limits.ts';
import {
  createSubscription,
  deleteSubscription,
  getSubscription,
  listSubscriptions,
  lockSubscription,
  updateSubscription,
} from './subscriptions/subscription-store.ts';
import { sendTest } from './test-event.ts';
import { chosenMessage, deliveryMessage, secretMessage, subscriptionMessage } from './views.ts';

export interface WebhooksContext {
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
  const limitedHost = limitedHostOf(policy);
  return {
    async createSubscription(request) {
      const { shopId } = request;
      const payloadVersion = await servedPayloadVersion(pool, shopId, today());
      const { subscription, secret, equal } = await createSubscription(pool, shopId, {
        fields: parseFields(request, policy),
        offsetMs: clock.offsetMs(),
        limitedHost,
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
      const change = { fields, offsetMs: clock.offsetMs(), limitedHost, use };
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
