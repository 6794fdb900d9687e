import { isIP } from 'node:net';
import { Code } from '@connectrpc/connect';
import ipaddr from 'ipaddr.js';
import { getDomain } from 'tldts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { checkUrl, type UrlPolicy } from '../../platform/outbound/guard.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { DomainError } from '../../platform/values/errors.ts';
import type { ChosenValues, SubscriptionChange } from './subscription.ts';

/** Maximum number of subscriptions of a shop. */
const MAX_SUBSCRIPTIONS = 100;

/**
 * Maximum number of active subscriptions of a shop to one domain for one topic and trigger. The owner of a domain need
 * not agree to a subscription. Without this limit their servers could get a hundred copies of one event.
 */
export const MAX_ACTIVE_PER_DOMAIN = 5;

/** Returns the domain of a URL, to which the limit applies; undefined for a URL without a limit. */
export type LimitedDomain = (url: string) => string | undefined;

/** Creates the function. URLs that only a local stack may use (`WEBHOOK_ALLOWED_ORIGINS`) have no limit. */
export function limitedDomainOf(policy: UrlPolicy): LimitedDomain {
  return (url) => {
    const check = checkUrl(url, policy);
    return check.ok && check.isAllowedOrigin ? undefined : domainOf(url);
  };
}

/**
 * Returns the registrable domain of a URL, in lower case and punycode: one label below a suffix of the public suffix
 * list. Its owner makes as many subdomains as they like, so a limit of host names limits nothing. Platforms whose
 * customers get a subdomain each are suffixes in the list, too. For a URL without such a domain, returns its host:
 * IPv4-mapped IPv6 addresses as IPv4. Undefined for a text that is no URL.
 */
export function domainOf(url: string): string | undefined {
  const host = URL.parse(url)?.hostname.replace(/\.$/, '');
  if (host === undefined) return undefined;
  const literal = host.replace(/^\[|\]$/g, '');
  if (isIP(literal) !== 0) return ipaddr.process(literal).toString();
  return getDomain(host, { allowPrivateDomains: true }) ?? host;
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
 * Rejects a sixth active subscription to a domain. The caller must have called {@link lockQuota}.
 *
 * @throws DomainError RESOURCE_EXHAUSTED with the limit.
 */
export async function requireCapacityAtDomain(
  tx: Queryable,
  candidate: Candidate,
  limitedDomain: LimitedDomain,
): Promise<void> {
  const domain = limitedDomain(candidate.url);
  if (domain === undefined) return;
  const { rows } = await tx.query<{ url: string }>(
    `select e.url from subscriptions s join endpoints e on e.shop_id = s.shop_id and e.id = s.endpoint_id
      where s.shop_id = $1 and s.topic = $2 and s.trigger = $3 and s.id is distinct from $4
        and s.status = 'active' and s.deleted_at is null`,
    [candidate.shopId, candidate.topic, candidate.trigger, candidate.id ?? null],
  );
  const atDomain = rows.filter(({ url }) => limitedDomain(url) === domain);
  if (atDomain.length >= MAX_ACTIVE_PER_DOMAIN) throw domainLimitReached(domain);
}

/** Calls {@link requireCapacityAtDomain} when a change adds an active subscription to a domain, topic or trigger. */
export async function requireCapacityFor(
  tx: Queryable,
  { shopId, id }: { shopId: bigint; id: bigint },
  o: { before: ChosenValues; fields: SubscriptionChange; limitedDomain: LimitedDomain },
): Promise<void> {
  const { before, fields, limitedDomain } = o;
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
    limitedDomain(after.url) === limitedDomain(before.url);
  if (!isCounted) await requireCapacityAtDomain(tx, { shopId, id, ...after }, limitedDomain);
}

/** The error for a domain at its limit. @param domain as {@link domainOf} returns it. */
export function domainLimitReached(domain: string): DomainError {
  return new DomainError(
    Code.ResourceExhausted,
    ErrorReason.QUOTA_EXCEEDED,
    `a shop may have at most ${MAX_ACTIVE_PER_DOMAIN} active webhook subscriptions to one domain for one pair of topic and trigger; ${domain} has ${MAX_ACTIVE_PER_DOMAIN} already`,
  );
}
