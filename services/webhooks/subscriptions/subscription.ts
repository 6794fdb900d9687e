import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  SubscriptionStatus,
  type SubscriptionValues,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { TOPICS, TRIGGERS } from '../../contract/vocabulary.ts';
import { checkUrl, type UrlPolicy } from '../../platform/outbound/guard.ts';
import { changedSince, DomainError, invalidField } from '../../platform/values/errors.ts';
import { fits } from '../../platform/values/text.ts';

type Status = 'active' | 'inactive';

/** A stored subscription: the URL to which the events of one topic and trigger are sent. */
export interface Subscription {
  readonly id: bigint;
  readonly topic: string;
  readonly trigger: string;
  readonly url: string;
  readonly status: Status;
  /** What it is for, in the words of the shop; empty for none. */
  readonly description: string;
  readonly inactiveReason: string;
  /** When it became inactive, by the retry clock; null while it is active. */
  readonly inactiveSince: Date | null;
  /** Number of failures since the last success, and the time of the first of them, by the retry clock. */
  readonly failures: number;
  readonly failingSince: Date | null;
  /** Percentage of the last warning before it becomes inactive; 0 when there was none. */
  readonly warnedPercent: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** When and to whom a signing secret was last shown. All are null when none was ever shown. */
  readonly secretShownAt: Date | null;
  readonly secretShownKind: string | null;
  readonly secretShownId: string | null;
  readonly secretShownName: string | null;
  /** Until when former secrets also sign; null when only the newest one signs. */
  readonly formerSecretsUntil: Date | null;
  /** When the newest secret was made; null while a new subscription has none. */
  readonly newestSecretAt: Date | null;
}

/** The values of a subscription that users choose. */
export type ChosenValues = Pick<
  Subscription,
  'topic' | 'trigger' | 'url' | 'status' | 'description'
>;

/** The fields that a caller may set in a new subscription. */
export interface SubscriptionFields {
  readonly topic: string;
  readonly trigger: string;
  readonly url: string;
  /** Undefined keeps the stored status. A new subscription then becomes `active`. */
  readonly status: Status | undefined;
  /** Empty for none. */
  readonly description: string;
}

/** The fields that a caller may change. Undefined keeps the stored value. */
export type SubscriptionChange = {
  readonly [K in keyof SubscriptionFields]?: SubscriptionFields[K] | undefined;
};

interface RequestFields {
  readonly topic: string;
  readonly trigger: string;
  readonly url: string;
  readonly status: SubscriptionStatus;
  readonly description?: string | undefined;
}

/**
 * Validates the fields of a request. Every pair of topic and trigger may be stored (interface: Webhook subscription).
 *
 * @throws DomainError INVALID_ARGUMENT: INVALID_FIELD, or WEBHOOK_URL_REFUSED when only the address is invalid.
 */
export function parseFields(request: RequestFields, policy: UrlPolicy): SubscriptionFields {
  const { topic, trigger, url } = request;
  requireOneOf('topic', topic, TOPICS);
  requireOneOf('trigger', trigger, TRIGGERS);
  const status = parseStatus(request.status);
  const description = parseDescription(request.description ?? '');
  requireAllowed(url, policy);
  return { topic, trigger, url, status, description };
}

/**
 * {@link parseFields} for a change. Empty fields keep the stored value and are not validated. An absent description does,
 * too; an empty one removes it.
 */
export function parseChange(request: RequestFields, policy: UrlPolicy): SubscriptionChange {
  const [topic, trigger, url] = [request.topic, request.trigger, request.url].map(
    (one) => one || undefined,
  );
  if (topic !== undefined) requireOneOf('topic', topic, TOPICS);
  if (trigger !== undefined) requireOneOf('trigger', trigger, TRIGGERS);
  const status = parseStatus(request.status);
  const description =
    request.description === undefined ? undefined : parseDescription(request.description);
  if (url !== undefined) requireAllowed(url, policy);
  return { topic, trigger, url, status, description };
}

/** The values that a change expects. @throws DomainError INVALID_ARGUMENT. */
export function parseExpected(
  expected: SubscriptionValues | undefined,
): SubscriptionChange | undefined {
  if (!expected) return undefined;
  const { status, description } = expected;
  return {
    ...expected,
    status: parseStatus(status),
    description: parseDescription(description),
  };
}

/**
 * Requires that nobody has changed a value that is changed now. @throws DomainError REVISION_CONFLICT with its present
 * value.
 */
export function requireExpected(
  before: ChosenValues,
  change: SubscriptionChange,
  expected: SubscriptionChange | undefined,
): void {
  const field = (['url', 'topic', 'trigger', 'status', 'description'] as const).find(
    (one) => expected && change[one] !== undefined && before[one] !== expected[one],
  );
  if (field) throw changedSince(field, before[field]);
}

function requireAllowed(url: string, policy: UrlPolicy): void {
  const check = checkUrl(url, policy);
  if (check.ok) return;
  const message = `url ${check.message}`;
  const reason = ErrorReason.WEBHOOK_URL_REFUSED;
  throw new DomainError(Code.InvalidArgument, reason, message, { field: 'url' });
}

function parseStatus(status: SubscriptionStatus): Status | undefined {
  switch (status) {
    case SubscriptionStatus.UNSPECIFIED:
      return undefined;
    case SubscriptionStatus.ACTIVE:
      return 'active';
    case SubscriptionStatus.INACTIVE:
      return 'inactive';
    default:
      throw invalidField('status', 'must be active or inactive');
  }
}

/** Requires an allowed value. @throws DomainError INVALID_ARGUMENT with the field and its allowed values. */
export function requireOneOf(field: string, value: string, allowed: readonly string[]): void {
  if (!allowed.includes(value)) throw invalidField(field, `must be one of ${allowed.join(', ')}`);
}

export function subscriptionNotFound(id: bigint): DomainError {
  return new DomainError(
    Code.NotFound,
    ErrorReason.SUBSCRIPTION_NOT_FOUND,
    `subscription ${id} does not exist`,
  );
}

/** The maximum length of a description. Unicode characters. */
const DESCRIPTION_MAX = 200;

/**
 * Characters that break a line, that PostgreSQL cannot store, or that change the direction of the text after them: the
 * portal shows the host of the address there.
 */
const FORBIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;

/** A character that a reader sees. */
const VISIBLE = /[^\s\p{Default_Ignorable_Code_Point}]/u;

/**
 * Returns what a subscription is for, without white space around it; empty when nothing of it can be seen.
 *
 * @throws DomainError INVALID_ARGUMENT with the field and the rule.
 */
function parseDescription(text: string): string {
  const line = text.trim();
  if (FORBIDDEN.test(line)) {
    throw invalidField('description', 'must be one line without control characters');
  }
  if (!fits(line, DESCRIPTION_MAX)) {
    throw invalidField('description', `must be at most ${DESCRIPTION_MAX} characters`);
  }
  return VISIBLE.test(line) ? line : '';
}
