import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, errors, importJWK, jwtVerify, SignJWT } from 'jose';
import type pg from 'pg';
import { z } from 'zod';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { inTransaction, type Queryable } from '../../../services/platform/postgres/postgres.ts';
import { createBoundedCache } from '../../auth/bounded-cache.ts';
import type { PartnerTokenCheck } from '../../auth/partner-tokens.ts';
import type { RejectionReason } from '../../auth/rejection.ts';
import { addPartnerGrant } from '../../tenancy/partner-grants.ts';
import { mayConnectApps } from '../../tenancy/partner-scopes.ts';
import type { Role } from '../../tenancy/permissions.ts';
import { type OAuthKeys, SIGNING_ALG } from '../tokens/keys.ts';

/** Lifetime of an access token: one hour. Seconds. */
export const PARTNER_TOKEN_TTL_S = 3_600;
/** Maximum lifetime of a grant. A refreshed token does not extend it. Days. */
export const PARTNER_GRANT_DAYS = 90;
const DAY_S = 24 * 3_600;

/** Type of access tokens in their header (RFC 9068). */
const TOKEN_TYPE = 'at+jwt';
/** Tolerated difference between the clocks of two replicas. Seconds. */
const CLOCK_SKEW_S = 5;
/**
 * How long a grant is cached. Its end, the removal of its app, and a lost permission must be effective in every replica
 * after 5 seconds. Milliseconds.
 */
const GRANT_MS = 3_000;
const MAX_CACHED = 10_000;
/** Maximum length of a token that is checked. Our tokens have about 700 bytes. Bytes. */
const MAX_TOKEN_LENGTH = 4_096;

/** Our own claims in an access token. */
export function partnerClaims(o: { readonly shopId: bigint; readonly grantId: string }) {
  return { shop_id: Number(o.shopId), grant_id: o.grantId };
}

const claimsSchema = z.object({
  sub: z
    .string()
    .regex(/^[1-9]\d{0,15}$/)
    .transform(BigInt),
  shop_id: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER).transform(BigInt),
  client_id: z.string().min(1),
  grant_id: z.string().min(1),
  scope: z.string().default(''),
  /** Seconds since 1970. */
  exp: z.number(),
});
type Claims = z.output<typeof claimsSchema>;

interface Verified {
  readonly claims: Claims;
  readonly kid: string;
}

interface VerifyOptions {
  readonly issuer: string;
  /** The required `aud`: the public address of the API. */
  readonly audience: string;
  readonly keys: OAuthKeys;
}

/**
 * Creates the check of the access tokens of our own authorization server for partners (RFC 9068).
 *
 * It checks the signature of a token once, and caches the result by the hash of the token. What may change is read
 * again every few seconds: the grant, the installation, the app, and the permission of the member who consented.
 */
export function createOwnPartnerTokenCheck(db: Queryable, o: VerifyOptions): PartnerTokenCheck {
  const verified = createBoundedCache<Verified>(MAX_CACHED);
  const grants = createBoundedCache<CurrentGrant | 'none'>(MAX_CACHED);

  const verify = async (token: string): Promise<Verified | RejectionReason> => {
    const hash = createHash('sha256').update(token).digest('base64');
    const cached = verified.get(hash);
    // The signing key may have been replaced since.
    if (cached && (await o.keys.verifyingKey(cached.kid))) return cached;
    const result = await verifyPartnerToken(token, o);
    if (typeof result !== 'string') {
      verified.set(hash, result, (result.claims.exp + CLOCK_SKEW_S) * 1_000 - Date.now());
    }
    return result;
  };
  const grantOf = async (claims: Claims): Promise<CurrentGrant | 'none'> => {
    const key = [claims.shop_id, claims.grant_id, claims.sub, claims.client_id].join(' ');
    const cached = grants.get(key);
    if (cached) return cached;
    const grant = (await readGrant(db, claims, o.issuer)) ?? 'none';
    grants.set(key, grant, GRANT_MS);
    return grant;
  };

  return {
    async check(token, onRejected) {
      const reject = (reason: RejectionReason, clientId?: string): undefined => {
        onRejected?.({ reason, clientId });
      };
      const result = await verify(token);
      if (typeof result === 'string') return reject(result);
      const { claims } = result;
      const { client_id: clientId, shop_id: shopId } = claims;
      const grant = await grantOf(claims);
      if (grant === 'none') return reject('app not installed', clientId);
      const isPermitted = grant.role !== null && mayConnectApps(grant.role);
      if (isPermitted && !grant.isActive) return reject('revoked', clientId);
      const allowed = claims.scope.split(' ').filter((scope) => grant.scopes.includes(scope));
      return {
        shopId,
        sandbox: grant.sandbox,
        actor: { kind: Actor_Kind.PARTNER_APP, id: clientId, name: grant.appName },
        scopes: isPermitted ? allowed : [],
        ...(!isPermitted && { lacksPermission: true }),
        limitKey: `app:${shopId}:${clientId}`,
        restPerMinute: null,
        scheme: 'bearer',
      };
    },
    clear() {
      verified.clear();
      grants.clear();
    },
  };
}

interface CurrentGrant {
  readonly sandbox: boolean;
  readonly appName: string;
  readonly scopes: readonly string[];
  /** Null when the user is no member any more. */
  readonly role: Role | null;
  readonly isActive: boolean;
}

/** Undefined when the app is not installed, or was removed. */
async function readGrant(
  db: Queryable,
  claims: Claims,
  issuer: string,
): Promise<CurrentGrant | undefined> {
  const { rows } = await db.query<CurrentGrant>({
    name: 'partner-grant',
    text: `select s.sandbox, a.name as "appName", m.role,
                  g.revoked_at is null and g.expires_at > now() as "isActive",
                  array(select unnest(g.scopes) intersect select unnest(a.scopes)) as scopes
             from partner_grants g
             join partner_apps a on a.client_id = g.client_id and a.removed_at is null
             join shops s on s.id = g.shop_id
             left join memberships m on m.shop_id = g.shop_id and m.user_id = g.user_id
            where g.shop_id = $1 and g.id = $2 and g.user_id = $3 and g.client_id = $4 and g.issuer = $5`,
    values: [claims.shop_id, claims.grant_id, claims.sub, claims.client_id, issuer],
  });
  return rows[0];
}

/**
 * Checks only the token itself: signature, type, issuer, audience, time. Its grant may be revoked.
 *
 * @returns why the token is not valid. Rejects when the database is unavailable.
 */
export async function verifyPartnerToken(
  token: string,
  o: VerifyOptions,
): Promise<Verified | RejectionReason> {
  const kid = token.length > MAX_TOKEN_LENGTH ? undefined : keyIdOf(token);
  if (kid === undefined) return 'malformed';
  const key = await o.keys.verifyingKey(kid);
  if (!key) return 'unknown key';
  try {
    const { payload } = await jwtVerify(token, key.key, {
      issuer: o.issuer,
      audience: o.audience,
      algorithms: [SIGNING_ALG],
      typ: TOKEN_TYPE,
      clockTolerance: CLOCK_SKEW_S,
      requiredClaims: ['iat', 'jti', 'exp'],
    });
    const claims = claimsSchema.safeParse(payload);
    return claims.success ? { claims: claims.data, kid: key.kid } : 'claims not accepted';
  } catch (error) {
    if (error instanceof errors.JWTExpired) return 'expired';
    if (error instanceof errors.JWTClaimValidationFailed) return 'claims not accepted';
    if (error instanceof errors.JOSEError) return 'wrong signature';
    throw error;
  }
}

/** The key id of a token; undefined when it is no JWT. */
function keyIdOf(token: string): string | undefined {
  try {
    decodeJwt(token);
    return decodeProtectedHeader(token).kid ?? '';
  } catch {
    return undefined;
  }
}

/**
 * Creates a grant of an app, without a sign-in. It installs the app. For local stacks and tests.
 *
 * @returns the id of the grant.
 * @throws when the member may not connect apps, or the app is not registered.
 */
export async function issuePartnerGrant(
  pool: pg.Pool,
  grant: Omit<Parameters<typeof addPartnerGrant>[2], 'ttlS'>,
): Promise<string> {
  const id = randomBytes(32).toString('base64url');
  const ttlS = PARTNER_GRANT_DAYS * DAY_S;
  await inTransaction(pool, (tx) => addPartnerGrant(tx, id, { ...grant, ttlS }));
  return id;
}

/**
 * Signs an access token, without a sign-in. For local stacks and tests.
 *
 * @param o.expiresInS seconds from now; an hour when absent. Negative for a token that has expired.
 */
export async function signPartnerToken(
  keys: OAuthKeys,
  o: {
    readonly issuer: string;
    readonly audience: string;
    readonly clientId: string;
    readonly userId: bigint;
    readonly shopId: bigint;
    readonly grantId: string;
    readonly scopes: readonly string[];
    readonly expiresInS?: number;
  },
): Promise<string> {
  const { kid, privateJwk } = await keys.signing();
  const now = Math.floor(Date.now() / 1_000);
  const expires = now + (o.expiresInS ?? PARTNER_TOKEN_TTL_S);
  return new SignJWT({ ...partnerClaims(o), client_id: o.clientId, scope: o.scopes.join(' ') })
    .setProtectedHeader({ alg: SIGNING_ALG, typ: TOKEN_TYPE, kid })
    .setIssuer(o.issuer)
    .setAudience(o.audience)
    .setSubject(String(o.userId))
    .setJti(randomUUID())
    .setIssuedAt(Math.min(now, expires - 60))
    .setExpirationTime(expires)
    .sign(await importJWK(privateJwk, SIGNING_ALG));
}
