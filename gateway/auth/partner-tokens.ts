import { createHash } from 'node:crypto';
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose';
import { z } from 'zod';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { deadline } from '../../services/platform/process/deadlines.ts';
import { findInstallation } from '../tenancy/installations.ts';
import { createBoundedCache } from './bounded-cache.ts';
import { boundedFetch } from './bounded-fetch.ts';
import type { Caller } from './caller.ts';
import { createPartnerPeople, type PartnerPerson, personIn } from './partner-people.ts';
import type { OnRejected, RejectionReason } from './rejection.ts';

export interface PartnerOAuth {
  /** `iss` of the tokens: the authorization server where partners sign in. */
  readonly issuer: string;
  /** The value that `aud` must contain: this API's public base address. */
  readonly audience: string;
  readonly jwksUrl: string;
  /**
   * The claim with the shop. The authorization server writes it. It gives access only to a shop that has installed the
   * app.
   */
  readonly shopClaim: string;
  /** The claim with the person who allowed the app; undefined when PARTNER_USER_CLAIM is not set. */
  readonly userClaim: string | undefined;
}

export interface PartnerTokenCheck {
  /**
   * Returns the caller of a token; undefined when the token is not valid, or when its shop has not installed the app.
   *
   * @throws when the key set or the database is unavailable.
   */
  check(token: string, onRejected?: OnRejected): Promise<Caller | undefined>;
  clear(): void;
}

/** Maximum lifetime of a token, because a token cannot be revoked. Seconds. */
const MAX_LIFETIME_S = 3_600;
/** Tolerated difference between the clocks of two servers. Seconds. */
const CLOCK_SKEW_S = 5;
/**
 * How long an installation or membership is cached. Its removal must be effective in every replica after 5 seconds.
 * Milliseconds.
 */
const INSTALLED_MS = 3_000;
const JWKS_TIMEOUT_MS = deadline(3_000);
const MAX_CACHED = 10_000;
/** Algorithms with a public key. A token with another algorithm is rejected like one with a wrong signature. */
const ALGORITHMS = ['RS256', 'ES256', 'EdDSA'];
/**
 * Allowed values of `typ`, in lower case and without `application/`. RFC 9068 requires `at+jwt`; some servers send
 * `JWT` or nothing.
 */
const TYPES: readonly (string | undefined)[] = ['at+jwt', 'jwt', undefined];
/**
 * Maximum length of a token. A longer token is rejected before its signature is checked; usual tokens have a few
 * hundred characters.
 */
const MAX_TOKEN_LENGTH = 8_192;

interface Grant {
  readonly shopId: bigint;
  readonly clientId: string;
  readonly scopes: readonly string[];
  /** Null when the token has no claim with a person. */
  readonly person: PartnerPerson | null;
  /** Seconds since 1970. */
  readonly expiresAt: number;
}

/**
 * Checks access tokens of partners' apps (RFC 9068, and JWTs without the type that it requires).
 *
 * A valid token is not enough: the shop in the token must have installed the app. An operator installs an app with `app
 * install`. If the token has a claim with the person who allowed the app, the token has scopes only while that person
 * may connect apps.
 *
 * Each signature is checked once. The result is cached by the hash of the token. The installation and the person's
 * membership are read again every few seconds.
 */
export function createPartnerTokenCheck(db: Queryable, oauth: PartnerOAuth): PartnerTokenCheck {
  const grants = createGrantCache(oauth);
  const installations = createInstallationCache(db, oauth.issuer);
  const people = createPartnerPeople(db, {
    issuer: oauth.issuer,
    cacheMs: INSTALLED_MS,
    maxCached: MAX_CACHED,
  });

  return {
    async check(token, onRejected) {
      const reject = (reason: RejectionReason, clientId?: string): undefined => {
        onRejected?.({ reason, clientId });
      };
      if (token.length > MAX_TOKEN_LENGTH) return reject('malformed');
      const grant = await grants.grantOf(token);
      if (typeof grant === 'string') return reject(grant);
      const shop = await installations.shopOf(grant);
      if (!shop) return reject('app not installed', grant.clientId);
      const { person } = grant;
      const isPermitted = person === null || (await people.mayConnect(grant.shopId, person));
      return {
        shopId: grant.shopId,
        sandbox: shop.sandbox,
        actor: { kind: Actor_Kind.PARTNER_APP, id: grant.clientId, name: grant.clientId },
        scopes: isPermitted ? grant.scopes : [],
        ...(!isPermitted && { lacksPermission: true }),
        limitKey: `app:${grant.shopId}:${grant.clientId}`,
        restPerMinute: null,
        scheme: 'bearer',
      };
    },
    clear() {
      grants.clear();
      people.clear();
      installations.clear();
    },
  };
}

/** Creates the cache of the grants of valid tokens, by the hash of the token. */
function createGrantCache(oauth: PartnerOAuth) {
  const keys = createRemoteJWKSet(new URL(oauth.jwksUrl), {
    timeoutDuration: JWKS_TIMEOUT_MS,
    [customFetch]: boundedFetch,
  });
  const grants = createBoundedCache<Grant>(MAX_CACHED);
  return {
    /** Returns the grant of a token, or why the token is not valid. */
    async grantOf(token: string): Promise<Grant | RejectionReason> {
      const hash = createHash('sha256').update(token).digest('base64');
      const cached = grants.get(hash);
      if (cached) return cached;
      const grant = await verify(token, oauth, keys);
      if (typeof grant !== 'string')
        grants.set(hash, grant, (grant.expiresAt + CLOCK_SKEW_S) * 1_000 - Date.now());
      return grant;
    },
    clear: () => grants.clear(),
  };
}

/** Creates the cache that says which shops have installed which apps. */
function createInstallationCache(db: Queryable, issuer: string) {
  const installed = createBoundedCache<{
    readonly shop: { readonly sandbox: boolean } | undefined;
  }>(MAX_CACHED);
  return {
    /** Returns the shop of a grant; undefined when the shop has not installed the app. */
    async shopOf({ shopId, clientId }: Grant) {
      const key = `${shopId} ${clientId}`;
      const cached = installed.get(key);
      if (cached) return cached.shop;
      const shop = await findInstallation(db, { shopId, clientId, issuer });
      installed.set(key, { shop }, INSTALLED_MS);
      return shop;
    },
    clear: () => installed.clear(),
  };
}

async function verify(
  token: string,
  oauth: PartnerOAuth,
  keys: JWTVerifyGetKey,
): Promise<Grant | RejectionReason> {
  try {
    const { payload, protectedHeader } = await jwtVerify(token, keys, {
      issuer: oauth.issuer,
      audience: oauth.audience,
      algorithms: ALGORITHMS,
      clockTolerance: CLOCK_SKEW_S,
      requiredClaims: ['exp'],
    });
    const type = protectedHeader.typ?.toLowerCase().replace(/^application\//, '');
    if (!TYPES.includes(type)) return 'claims not accepted';
    return grantIn(payload, oauth) ?? 'claims not accepted';
  } catch (error) {
    const reason = error instanceof errors.JOSEError && REASONS.get(error.code);
    if (reason) return reason;
    throw new KeySetUnavailable('the key set of the authorization server cannot be read', {
      cause: error,
    });
  }
}

/** The key set of the authorization server cannot be read, so nobody can say whether the token is valid. */
export class KeySetUnavailable extends Error {
  override readonly name = 'KeySetUnavailable';
}

/** The reasons for invalid tokens, by error code of jose. All other errors of jose are about the key set. */
const REASONS: ReadonlyMap<string, RejectionReason> = new Map([
  [errors.JWTExpired.code, 'expired'],
  [errors.JWTClaimValidationFailed.code, 'claims not accepted'],
  [errors.JWTInvalid.code, 'malformed'],
  [errors.JWSInvalid.code, 'malformed'],
  [errors.JWSSignatureVerificationFailed.code, 'wrong signature'],
  [errors.JOSEAlgNotAllowed.code, 'wrong signature'],
  [errors.JOSENotSupported.code, 'wrong signature'],
  [errors.JWKSNoMatchingKey.code, 'unknown key'],
  [errors.JWKSMultipleMatchingKeys.code, 'unknown key'],
]);

const text = z.string().min(1).max(200);
const shopId = z.union([
  z.number().int().min(1).max(Number.MAX_SAFE_INTEGER).transform(BigInt),
  z
    .string()
    .regex(/^[1-9]\d{0,15}$/)
    .transform(BigInt),
]);

/**
 * Reads the claims. Undefined when the shop or the client is missing, the lifetime is too long, or a claim is invalid.
 */
function grantIn(payload: JWTPayload, oauth: PartnerOAuth): Grant | undefined {
  const shop = shopId.safeParse(payload[oauth.shopClaim]);
  const client = text.safeParse(payload.client_id ?? payload.azp);
  const scope = z.string().default('').safeParse(payload.scope);
  const expiresAt = payload.exp ?? 0;
  // The lifetime of a token without `iat`, or with an `iat` in the future, is counted from now.
  const begins = Math.min(payload.iat ?? Number.POSITIVE_INFINITY, Date.now() / 1_000);
  const tooLong = expiresAt - begins > MAX_LIFETIME_S + CLOCK_SKEW_S;
  if (!shop.success || !client.success || !scope.success || tooLong) return undefined;
  const person = personIn(payload, oauth.userClaim, client.data);
  if (person === undefined) return undefined;
  return {
    shopId: shop.data,
    clientId: client.data,
    scopes: scope.data.split(' ').filter((one) => one !== ''),
    person,
    expiresAt,
  };
}
