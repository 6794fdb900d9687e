import type { JWTPayload } from 'jose';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { roleOfAccount } from '../tenancy/members.ts';
import { mayConnectApps } from '../tenancy/partner-scopes.ts';
import { parseEmail } from '../tenancy/users.ts';
import { createBoundedCache } from './bounded-cache.ts';

/** The person who allowed a partner's app to act for a shop, as the app's token identifies the person. */
export interface PartnerPerson {
  /** `sub` of the token; undefined when it has none. */
  readonly subject: string | undefined;
  /**
   * Present when the value of the configured claim is an e-mail address. Operators configure only claims with confirmed
   * addresses.
   */
  readonly email: string | undefined;
}

/** Maximum length of a claim that identifies a person (OpenID Connect Core, 2: `sub` has at most 255). Characters. */
const PERSON_MAX = 320;

/**
 * Reads the person from the configured claim of a token.
 *
 * @param claim the setting PARTNER_USER_CLAIM; undefined when it is not set.
 * @returns null when the token has no such claim, or when its value is the client itself, which is not a person (RFC
 *   9068, 2.2). Undefined when the claim is invalid.
 */
export function personIn(
  payload: JWTPayload,
  claim: string | undefined,
  clientId: string,
): PartnerPerson | null | undefined {
  const value = claim === undefined ? undefined : payload[claim];
  if (value === undefined || value === clientId) return null;
  if (typeof value !== 'string' || value === '' || value.length > PERSON_MAX) return undefined;
  const subject = typeof payload.sub === 'string' ? payload.sub : undefined;
  const email = parseEmail(value);
  // Another claim than `sub` names no account of the issuer: its value could be the subject of somebody else.
  if (email === undefined && claim !== 'sub') return undefined;
  return { subject, email };
}

/** The people behind partners' tokens. */
export interface PartnerPeople {
  /** Whether the person may still connect apps to the shop. @throws when the database is unavailable. */
  mayConnect(shopId: bigint, person: PartnerPerson): Promise<boolean>;
  clear(): void;
}

/** Creates the check of people. @param o.cacheMs maximum age of a cached result. */
export function createPartnerPeople(
  db: Queryable,
  o: { readonly issuer: string; readonly cacheMs: number; readonly maxCached: number },
): PartnerPeople {
  const answers = createBoundedCache<boolean>(o.maxCached);
  return {
    async mayConnect(shopId, person) {
      const key = JSON.stringify([String(shopId), person.subject, person.email]);
      const cached = answers.get(key);
      if (cached !== undefined) return cached;
      const role = await roleOfAccount(db, shopId, { ...person, issuer: o.issuer });
      const isAllowed = role !== undefined && mayConnectApps(role);
      answers.set(key, isAllowed, o.cacheMs);
      return isAllowed;
    },
    clear: () => answers.clear(),
  };
}
