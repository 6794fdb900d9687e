import { InvalidArgumentError } from 'commander';
import { isScope, SCOPES, type Scope } from '../../services/contract/scopes.ts';
import { parseTime } from '../../services/contract/time.ts';
import { RELEASED } from '../../services/contract/versions.ts';
import { DESTINATION_TYPES } from '../../services/contract/vocabulary.ts';
import { parseId } from '../../services/platform/values/ids.ts';
import { isRole, ROLES, type Role } from '../tenancy/permissions.ts';

// Parsers of command-line values. Each throws commander's error, which says what the value must be.

/** The option `--shop`. */
export interface ShopOption {
  readonly shop: bigint;
}

const idParser =
  (what: string) =>
  (text: string): bigint => {
    const id = parseId(text);
    if (id === undefined) throw new InvalidArgumentError(`must be ${what}`);
    return id;
  };

export const shopId = idParser('a shop id such as 1');
export const returnId = idParser('a return id such as 1');
export const subscriptionId = idParser('the id of a webhook such as 1');
/** The id of an order at the commerce provider. */
export const orderId = idParser('an order id such as 1');
export const entryId = idParser('the cursor at the end of a list');

/** A day in UTC, as YYYY-MM-DD. */
export function day(text: string): string {
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text));
  if (isDay && new Date(text).toISOString().startsWith(text)) return text;
  throw new InvalidArgumentError('must be a day such as 2026-11-20');
}

/** How long an old secret still signs. */
export function overlapHours(text: string): number {
  const hours = /^\d{1,3}$/.test(text) ? Number(text) : Number.NaN;
  if (hours >= 0 && hours <= 168) return hours;
  throw new InvalidArgumentError('must be a number of hours from 0 to 168');
}

export type DestinationTypeName = (typeof DESTINATION_TYPES)[number];

export function destinationType(text: string): DestinationTypeName {
  const type = DESTINATION_TYPES.find((name) => name === text);
  if (type) return type;
  throw new InvalidArgumentError(`must be one of ${DESTINATION_TYPES.join(', ')}`);
}

export function role(text: string): Role {
  if (isRole(text)) return text;
  throw new InvalidArgumentError(`must be one of ${ROLES.join(', ')}`);
}

/** A list separated by commas. */
export function scopes(text: string): Scope[] {
  return text.split(',').map((part) => {
    const scope = part.trim();
    if (isScope(scope)) return scope;
    throw new InvalidArgumentError(`must be some of ${SCOPES.join(', ')}, separated by commas`);
  });
}

export function time(text: string): Date {
  const parsed = parseTime(text);
  if (!parsed) throw new InvalidArgumentError('must be a time such as 2027-07-01T00:00:00Z');
  return parsed;
}

/** When a key expires. A key that expired already would be listed, and never work. */
export function expiry(text: string): Date {
  const at = time(text);
  if (at.getTime() > Date.now()) return at;
  throw new InvalidArgumentError(
    `must be in the future: it is ${new Date().toISOString()} now. Leave the option out for a key that does not expire, or end an existing key with "key revoke"`,
  );
}

/** A released version. The service checks whether it is supported today, by its own calendar. */
export function releasedVersion(text: string): string {
  const version = RELEASED.find((name) => name === text);
  if (version === undefined)
    throw new InvalidArgumentError(`must be one of ${RELEASED.join(', ')}`);
  return version;
}

export function perMinute(text: string): number {
  const count = /^[1-9]\d{0,6}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= 1_000_000) return count;
  throw new InvalidArgumentError('must be a number from 1 to 1000000');
}

/** The number of entries of a page. */
export function pageSize(text: string): number {
  const count = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= 10_000) return count;
  throw new InvalidArgumentError('must be a number from 1 to 10000');
}
