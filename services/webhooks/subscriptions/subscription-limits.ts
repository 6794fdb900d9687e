import { isIP } from 'node:net';
import { Code } from '@connectrpc/connect';
import ipaddr from 'ipaddr.js';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { checkUrl, type UrlPolicy } from '../../platform/outbound/guard.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { DomainError } from '../../platform/values/errors.ts';
import type { ChosenValues, SubscriptionChange } from './subscription.ts';

/** Maximum number of subscriptions of a shop. */
const MAX_SUBSCRIPTIONS = 100;

/**
 * Maximum number of active subscriptions of a shop to one host for one topic and trigger. A host need not agree to a
 * subscription. Without this limit it could get a hundred copies of one event.
 */
export const MAX_ACTIVE_PER_HOST = 5;

/** Returns the host of a URL, to which the limit applies; undefined for a URL without a limit. */
export type LimitedHost = (url: string) => string | undefined;

/** Creates the function. URLs that only a local stack may use (`WEBHOOK_ALLOWED_ORIGINS`) have no limit. */
export function limitedHostOf(policy: UrlPolicy): LimitedHost {
  return (url) => {
    const check = checkUrl(url, policy);
    return check.ok && check.isAllowedOrigin ? undefined : canonicalHost(url);
  };
}

/**
 * Returns the host of a URL in one spelling: lower case, punycode, without port and final dot, and IPv4-mapped IPv6
 * addresses as IPv4. Undefined for a text that is no URL.
 */
export function canonicalHost(url: string): string | undefined {
  const host = URL.parse(url)?.hostname.replace(/\.$/, '');
  if (host === undefined) return undefined;
  const literal = host.replace(/^\[|\]$/g, '');
  return isIP(literal) === 0 ? host : ipaddr.process(literal).toString();
}

/**
 * Locks the subscriptions of a shop, so that only one transaction at a time adds or activates a subscription. So the
 * limits are exact.
 */
export async function lockQuota(tx: Queryable, shopId: bigint): Promise<void> {
  await tx.query(
    `select pg_advisory_xact_lock(hashtextextended('webhooks:quota:' || $1::text, 0))`,
    [shopId],
  );
}

/**
 * Rejects a new subscription of a shop that already has a hundred. The caller must have called {@link lockQuota}.
 *
 * @throws DomainError RESOURCE_EXHAUSTED with the limit.
 */
export async function requireCapacity(tx: Queryable, shopId: bigint): Promise<void> {
  const result = await tx.query<{ count: bigint }>(
    'select count(*) as count from subscriptions where shop_id = $1 and deleted_at is null',
    [shopId],
  );
  if (onlyRow(result).count >= MAX_SUBSCRIPTIONS) {
    throw new DomainError(
      Code.ResourceExhausted,
      ErrorReason.QUOTA_EXCEEDED,
      `a shop may have at most ${MAX_SUBSCRIPTIONS} webhook subscriptions`,
    );
  }
}

/** A subscription that will become active in this transaction. */
export interface Candidate {
  readonly shopId: bigint;
  /** Id of the subscription; undefined for a new one. */
  readonly id?: bigint;
  readonly topic: string;
  readonly trigger: string;
  readonly url: string;
}

/**
 * Rejects a sixth active subscription to a host. The caller must have called {@link lockQuota}.
 *
 * @throws DomainError RESOURCE_EXHAUSTED with the limit.
 */
export async function requireCapacityAtHost(
  tx: Queryable,
  candidate: Candidate,
  limitedHost: LimitedHost,
): Promise<void> {
  const host = limitedHost(candidate.url);
  if (host === undefined) return;
  const { rows } = await tx.query<{ url: string }>(
    `select e.url from subscriptions s join endpoints e on e.shop_id = s.shop_id and e.id = s.endpoint_id
      where s.shop_id = $1 and s.topic = $2 and s.trigger = $3 and s.id is distinct from $4
        and s.status = 'active' and s.deleted_at is null`,
    [candidate.shopId, candidate.topic, candidate.trigger, candidate.id ?? null],
  );
  const atHost = rows.filter(({ url }) => limitedHost(url) === host);
  if (atHost.length >= MAX_ACTIVE_PER_HOST) throw hostLimitReached(host);
}

/** Calls {@link requireCapacityAtHost} when a change adds an active subscription to a host, topic or trigger. */
export async function requireCapacityFor(
  tx: Queryable,
  { shopId, id }: { shopId: bigint; id: bigint },
  o: { before: ChosenValues; fields: SubscriptionChange; limitedHost: LimitedHost },
): Promise<void> {
  const { before, fields, limitedHost } = o;
  const after = {
    topic: fields.topic ?? before.topic,
    trigger: fields.trigger ?? before.trigger,
    url: fields.url ?? before.url,
  };
  if ((fields.status ?? before.status) !== 'active') return;
  const isCounted =
    before.status === 'active' &&
    after.topic === before.topic &&
    after.trigger === before.trigger &&
    limitedHost(after.url) === limitedHost(before.url);
  if (!isCounted) await requireCapacityAtHost(tx, { shopId, id, ...after }, limitedHost);
}

/** The error for a host at its limit. @param host host in its canonical form. */
export function hostLimitReached(host: string): DomainError {
  return new DomainError(
    Code.ResourceExhausted,
    ErrorReason.QUOTA_EXCEEDED,
    `a shop may have at most ${MAX_ACTIVE_PER_HOST} active webhook subscriptions to one host for one pair of topic and trigger; ${host} has ${MAX_ACTIVE_PER_HOST} already`,
  );
}
