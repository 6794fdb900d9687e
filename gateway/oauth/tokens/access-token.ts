import { createHash } from 'node:crypto';
import { decodeProtectedHeader, errors, jwtVerify } from 'jose';
import type pg from 'pg';
import { z } from 'zod';
import { createBoundedCache } from '../../auth/bounded-cache.ts';
import type { Role } from '../../tenancy/permissions.ts';
import type { SupportedClients } from '../clients/supported-clients.ts';
import { type OAuthKeys, SIGNING_ALG } from './keys.ts';

/** The user, shop, role and client of an access token. All of them are read from the database at each call. */
export interface SignedIn {
  readonly userId: bigint;
  readonly email: string;
  readonly name: string | null;
  readonly shopId: bigint;
  readonly shopName: string;
  /** Whether the shop is a sandbox. */
  readonly sandbox: boolean;
  /** ISO 4217. */
  readonly currency: string;
  readonly role: Role;
  readonly clientId: string;
  /** The host or the scheme of the app that got the token; null for old grants. */
  readonly app: string | null;
  /** The name that the app gives itself; null when unknown. Nobody verified it. */
  readonly selfName: string | null;
  /** The grant that the token belongs to. */
  readonly grantId: string;
  /** Whether the user allowed the assistant only to read. */
  readonly isReadOnly: boolean;
}

export interface AccessTokenCheck {
  /**
   * Returns the user of the token. Returns undefined when the token is invalid, when its grant is revoked or expired,
   * when its app is no longer supported, or when the user is no longer a member of the shop. Rejects when the database is unavailable.
   */
  check(token: string): Promise<SignedIn | undefined>;
}

/** The scope of every access token. */
export const MCP_SCOPE = 'mcp';
/** Type of access tokens in their header (RFC 9068). */
const TOKEN_TYPE = 'at+jwt';
/** Tolerated difference between the clocks of two replicas. Seconds. */
const CLOCK_SKEW_S = 5;
const MAX_CACHED = 10_000;
/** Maximum length of a token that is checked. Our tokens have about 700 bytes. Bytes. */
const MAX_TOKEN_LENGTH = 4_096;

const id = z
  .string()
  .regex(/^[1-9]\d{0,15}$/)
  .transform(BigInt);

const claimsSchema = z.object({
  sub: id,
  shop_id: id,
  client_id: z.string().min(1),
  grant_id: z.string().min(1),
  scope: z.string().refine((scope) => scope.split(' ').includes(MCP_SCOPE)),
  /** Seconds since 1970. */
  exp: z.number(),
});

export interface Verified {
  readonly claims: z.infer<typeof claimsSchema>;
  readonly kid: string;
}

/**
 * Creates the check of this service's access tokens (RFC 9068).
 *
 * It checks the signature of a token once, and caches the result by the hash of the token. At each call it reads what
 * may change (grant, user, membership, role, shop), in one statement.
 *
 * @param o.resource the required `aud` claim: the address of the MCP server.
 */
export function createAccessTokenCheck(o: {
  readonly pool: pg.Pool;
  readonly issuer: string;
  readonly resource: string;
  readonly keys: OAuthKeys;
  readonly clients: SupportedClients;
  /** Called with the grant id of each valid token. */
  readonly used?: (grantId: string) => void;
}): AccessTokenCheck {
  const verifiedTokens = createBoundedCache<Verified>(MAX_CACHED);

  const verify = async (token: string): Promise<Verified | undefined> => {
    if (token.length > MAX_TOKEN_LENGTH) return undefined;
    const hash = createHash('sha256').update(token).digest('base64');
    const cached = verifiedTokens.get(hash);
    if (cached) return cached;
    const verified = await verifyAccessToken(token, o);
    if (verified)
      verifiedTokens.set(hash, verified, (verified.claims.exp + CLOCK_SKEW_S) * 1_000 - Date.now());
    return verified;
  };

  return {
    async check(token) {
      const verified = await verify(token);
      // The signing key may have been replaced since the result was cached. The result counts only while the key still
      // verifies.
      if (!verified || !(await o.keys.verifyingKey(verified.kid))) return undefined;
      const user = await readSignedIn(o.pool, verified.claims);
      // The operator may have removed the app since the token was issued.
      if (!user || !o.clients.includes(user.clientId, user.app)) return undefined;
      o.used?.(verified.claims.grant_id);
      return user;
    },
  };
}

/**
 * Checks only the token itself: signature, issuer, audience, time. Its grant may be revoked or expired.
 *
 * @returns undefined for an invalid token. Rejects when the database is unavailable.
 */
export async function verifyAccessToken(
  token: string,
  o: { readonly issuer: string; readonly resource: string; readonly keys: OAuthKeys },
): Promise<Verified | undefined> {
  if (token.length > MAX_TOKEN_LENGTH) return undefined;
  const kid = keyIdOf(token);
  const key = kid === undefined ? undefined : await o.keys.verifyingKey(kid);
  if (!key) return undefined;
  try {
    const { payload } = await jwtVerify(token, key.key, {
      issuer: o.issuer,
      audience: o.resource,
      algorithms: [SIGNING_ALG],
      typ: TOKEN_TYPE,
      clockTolerance: CLOCK_SKEW_S,
      requiredClaims: ['iat', 'jti'],
    });
    const claims = claimsSchema.safeParse(payload);
    return claims.success ? { claims: claims.data, kid: key.kid } : undefined;
  } catch (error) {
    if (error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}

function keyIdOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).kid;
  } catch {
    return undefined;
  }
}

async function readSignedIn(
  pool: pg.Pool,
  claims: z.infer<typeof claimsSchema>,
): Promise<SignedIn | undefined> {
  const { rows } = await pool.query<Omit<SignedIn, 'clientId' | 'grantId'>>({
    name: 'oauth-signed-in',
    text: `select u.id as "userId", u.email, u.name, s.id as "shopId", s.name as "shopName", s.sandbox, s.currency, m.role,
                  g.read_only as "isReadOnly", g.app, g.self_name as "selfName"
             from oauth_grants g
             join memberships m on m.shop_id = g.shop_id and m.user_id = g.user_id
             join users u on u.id = m.user_id
             join shops s on s.id = m.shop_id
            where g.shop_id = $1 and g.id = $2 and g.user_id = $3 and g.client_id = $4
              and g.revoked_at is null and g.expires_at > now()`,
    values: [claims.shop_id, claims.grant_id, claims.sub, claims.client_id],
  });
  const [row] = rows;
  return row && { ...row, clientId: claims.client_id, grantId: claims.grant_id };
}
