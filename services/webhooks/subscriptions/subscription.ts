import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { TOPICS, TRIGGERS } from '../../contract/limits.ts';
import { DomainError, invalidField } from '../../platform/errors.ts';
import { judgeUrl, type UrlPolicy } from '../guard/guard.ts';

/** Most subscriptions a shop may have. */
export const MAX_SUBSCRIPTIONS = 100;

export type Status = 'active' | 'inactive';

/** Where the events of one topic and trigger go, as the service keeps it. */
export interface Subscription {
  readonly id: bigint;
  readonly topic: string;
  readonly trigger: string;
  readonly url: string;
  readonly status: Status;
  readonly inactiveReason: string;
  /** By the retry clock; null when it is active. */
  readonly inactiveSince: Date | null;
  /** Since the last success; when they began, by the retry clock. */
  readonly failures: number;
  readonly failingSince: Date | null;
  /** Of the last warning that it will be switched off; 0 for none. */
  readonly warnedPercent: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** What a caller may set. */
export interface SubscriptionFields {
  readonly topic: string;
  readonly trigger: string;
  readonly url: string;
  /** Undefined keeps it; `active` on create. */
  readonly status: Status | undefined;
}

/** What a caller may change: undefined keeps what is stored. */
export type SubscriptionChange = {
  readonly [K in keyof SubscriptionFields]?: SubscriptionFields[K] | undefined;
};

interface GivenFields {
  readonly topic: string;
  readonly trigger: string;
  readonly url: string;
  readonly status: SubscriptionStatus;
}

/**
 * Checks what a caller wants to set; every pair of topic and trigger may be stored (interface:
 * Webhook subscription).
 *
 * @throws DomainError INVALID_ARGUMENT: INVALID_FIELD, or WEBHOOK_URL_REFUSED when all but the
 *   address is in order.
 */
export function parseFields(given: GivenFields, policy: UrlPolicy): SubscriptionFields {
  const { topic, trigger, url } = given;
  requireOneOf('topic', topic, TOPICS);
  requireOneOf('trigger', trigger, TRIGGERS);
  const status = parseStatus(given.status);
  requireAllowed(url, policy);
  return { topic, trigger, url, status };
}

/** {@link parseFields} of a change: what is empty stays as it is, and is not checked again. */
export function parseChange(given: GivenFields, policy: UrlPolicy): SubscriptionChange {
  const [topic, trigger, url] = [given.topic, given.trigger, given.url].map(
    (one) => one || undefined,
  );
  if (topic !== undefined) requireOneOf('topic', topic, TOPICS);
  if (trigger !== undefined) requireOneOf('trigger', trigger, TRIGGERS);
  const status = parseStatus(given.status);
  if (url !== undefined) requireAllowed(url, policy);
  return { topic, trigger, url, status };
}

function requireAllowed(url: string, policy: UrlPolicy): void {
  const verdict = judgeUrl(url, policy);
  if (verdict.ok) return;
  const message = `url ${verdict.message}`;
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

/** @throws DomainError INVALID_ARGUMENT naming the field and what it may be. */
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

export function quotaExceeded(): DomainError {
  return new DomainError(
    Code.ResourceExhausted,
    ErrorReason.QUOTA_EXCEEDED,
    `a shop may have at most ${MAX_SUBSCRIPTIONS} webhook subscriptions`,
  );
}

/** @param host in its canonical form. */
export function hostLimitReached(host: string, limit: number): DomainError {
  return new DomainError(
    Code.ResourceExhausted,
    ErrorReason.QUOTA_EXCEEDED,
    `a shop may have at most ${limit} active webhook subscriptions to one host for one pair of topic and trigger; ${host} has ${limit} already`,
  );
}
