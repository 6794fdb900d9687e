import { timestampDate } from '@bufbuild/protobuf/wkt';
import { z } from 'zod';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  type Event,
  SubscriptionDisabled_Reason as Reason,
  type WebhookSubscription,
} from '../../proto/gen/rms/events/v1/events_pb.ts';
import { actorKindText } from '../../services/platform/values/actor.ts';

const subscription = z.object({
  id: z.string(),
  host: z.string(),
  topic: z.string(),
  trigger: z.string(),
});
const aboutSubscription = { at: z.iso.datetime(), subscription };

/** What a mail tells, as stored in `mails.facts`. Times are ISO 8601; ids are decimal. */
export const factShape = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('endpoint_failing'),
    ...aboutSubscription,
    percent: z.number(),
    failures: z.number(),
    failing_since: z.iso.datetime().nullable(),
    disables_at: z.iso.datetime().nullable(),
    last_error: z.string(),
  }),
  z.object({
    kind: z.literal('endpoint_disabled'),
    ...aboutSubscription,
    reason: z.enum(['gone', 'failures']),
    failures: z.number(),
    failing_since: z.iso.datetime().nullable(),
    last_error: z.string(),
  }),
  z.object({
    kind: z.literal('endpoint_exhausted'),
    ...aboutSubscription,
    deliveries: z.number(),
    last_error: z.string(),
  }),
  z.object({
    kind: z.literal('secret_revealed'),
    ...aboutSubscription,
    rotated: z.boolean(),
    by: z.object({ kind: z.string(), id: z.string(), name: z.string() }),
  }),
  z.object({
    kind: z.literal('assistant_connected'),
    at: z.iso.datetime(),
    user_id: z.string(),
    client_id: z.string(),
    /** The host that got the code, or the scheme of the app. */
    app: z.string(),
  }),
  z.object({
    kind: z.literal('owner_added'),
    at: z.iso.datetime(),
    /** The new owner. */
    user_id: z.string(),
    /** The owner who made or invited the new one. */
    by_user_id: z.string(),
  }),
  z.object({
    kind: z.literal('api_key_made'),
    at: z.iso.datetime(),
    user_id: z.string(),
    key_id: z.string(),
    description: z.string(),
    scopes: z.array(z.string()),
    /** Whether it replaces another key. */
    rotated: z.boolean(),
    /** Whether it waits for an owner. */
    waiting: z.boolean(),
  }),
  z.object({
    kind: z.literal('new_device'),
    at: z.iso.datetime(),
    user_id: z.string(),
    /** Such as `Firefox on Windows`; empty when unknown. */
    device: z.string(),
    /** IP address; empty when unknown. */
    source: z.string(),
  }),
  z.object({
    kind: z.literal('app_installed'),
    at: z.iso.datetime(),
    user_id: z.string(),
    client_id: z.string(),
    name: z.string(),
    /** What it may do, and what an owner still has to allow. */
    scopes: z.array(z.string()),
    waiting_scopes: z.array(z.string()),
  }),
]);

export type Fact = z.output<typeof factShape>;
export type FactKind = Fact['kind'];
export type FactOf<K extends FactKind> = Extract<Fact, { kind: K }>;

/** A fact for the members of a shop. */
export interface ShopFact {
  readonly shopId: bigint;
  /** What it is about. Facts with one subject are in one mail, if they come together. */
  readonly subject: string;
  readonly fact: Fact;
}

/** The fact that somebody became an owner. */
export function ownerAdded(o: {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly byUserId: bigint;
}): ShopFact {
  const at = new Date().toISOString();
  const [user_id, by_user_id] = [String(o.userId), String(o.byUserId)];
  return {
    shopId: o.shopId,
    subject: `owner:${user_id}`,
    fact: { kind: 'owner_added', at, user_id, by_user_id },
  };
}

/** The fact that a person made an API key in the portal. */
export function apiKeyMade(o: {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly keyId: string;
  readonly description: string;
  readonly scopes: readonly string[];
  readonly isRotated: boolean;
  readonly isWaiting: boolean;
}): ShopFact {
  const { shopId, description, scopes } = o;
  const [at, user_id] = [new Date().toISOString(), String(o.userId)];
  const flags = { rotated: o.isRotated, waiting: o.isWaiting };
  const key = { key_id: o.keyId, description, scopes: [...scopes], ...flags };
  return {
    shopId,
    subject: `key:${o.keyId}`,
    fact: { kind: 'api_key_made', at, user_id, ...key },
  };
}

/** The fact that somebody signed in with a device that they had not used before. */
export function newDevice(o: {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly device: string;
  readonly source: string;
}): ShopFact {
  const { shopId, device, source } = o;
  const [at, user_id] = [new Date().toISOString(), String(o.userId)];
  return {
    shopId,
    subject: `device:${user_id}:${device}`,
    fact: { kind: 'new_device', at, user_id, device, source },
  };
}

/** Returns the fact of an event; undefined for an event that nobody gets a mail about. */
export function factOfEvent(event: Event): ShopFact | undefined {
  const { shopId, detail } = event;
  const at = timeOf(event.occurredAt) ?? new Date(0).toISOString();
  switch (detail.case) {
    case 'subscriptionFailing': {
      const { subscription: of, percent, failures, lastError } = detail.value;
      const times = {
        failing_since: timeOf(detail.value.failingSince),
        disables_at: timeOf(detail.value.disablesAt),
      };
      const about = { at, subscription: subscriptionOf(of), percent, failures, ...times };
      const fact = { kind: 'endpoint_failing', ...about, last_error: lastError } as const;
      return { shopId, subject: endpointOf(of), fact };
    }
    case 'subscriptionDisabled': {
      const { subscription: of, failures, failingSince, lastError } = detail.value;
      const reason = detail.value.reason === Reason.GONE ? 'gone' : 'failures';
      const about = { at, subscription: subscriptionOf(of), reason, failures } as const;
      const rest = { failing_since: timeOf(failingSince), last_error: lastError };
      return {
        shopId,
        subject: endpointOf(of),
        fact: { kind: 'endpoint_disabled', ...about, ...rest },
      };
    }
    case 'deliveriesExhausted': {
      const { subscription: of, deliveries, lastError } = detail.value;
      const about = { at, subscription: subscriptionOf(of), deliveries, last_error: lastError };
      return { shopId, subject: endpointOf(of), fact: { kind: 'endpoint_exhausted', ...about } };
    }
    case 'secretRevealed':
      return { shopId, ...revealed(event, at) };
    default:
      return undefined;
  }
}

function revealed({ actor, detail }: Event, at: string): Omit<ShopFact, 'shopId'> {
  if (detail.case !== 'secretRevealed') throw new Error('the event is not secret.revealed');
  const { subscription: of, rotated } = detail.value;
  const kind =
    actor && actor.kind !== Actor_Kind.UNSPECIFIED ? actorKindText.toText(actor.kind) : '';
  const by = { kind, id: actor?.id ?? '', name: actor?.name ?? '' };
  return {
    subject: `secret:${of?.id ?? 0n}:${rotated ? 'rotated' : 'shown'}:${by.kind}:${by.id}`,
    fact: { kind: 'secret_revealed', at, subscription: subscriptionOf(of), rotated, by },
  };
}

/** All subscriptions of an address share the subject, so that their facts are in one mail. */
function endpointOf(of: WebhookSubscription | undefined): string {
  return `endpoint:${of?.endpointId ?? 0n}`;
}

function subscriptionOf(of: WebhookSubscription | undefined): z.output<typeof subscription> {
  const { host = '', topic = '', trigger = '' } = of ?? {};
  return { id: String(of?.id ?? 0n), host, topic, trigger };
}

function timeOf(at: Parameters<typeof timestampDate>[0] | undefined): string | null {
  return at ? timestampDate(at).toISOString() : null;
}
