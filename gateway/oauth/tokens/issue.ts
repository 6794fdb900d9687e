import { randomBytes, randomUUID } from 'node:crypto';
import { importJWK, SignJWT } from 'jose';
import type pg from 'pg';
import type { Queryable } from '../../../services/platform/postgres/postgres.ts';
import { MCP_SCOPE } from './access-token.ts';
import { type OAuthKeys, SIGNING_ALG } from './keys.ts';

/** Lifetime of an access token: 12 hours. Seconds. */
export const ACCESS_TOKEN_TTL_S = 12 * 3_600;
/** Default maximum lifetime of a grant. A refreshed token does not extend it. Days. */
export const DEFAULT_GRANT_DAYS = 90;
export const DAY_S = 24 * 3_600;

/** Whom a grant is for: the client may act for the user in the shop. */
export interface GrantFor {
  readonly userId: bigint;
  readonly shopId: bigint;
  readonly clientId: string;
}

/** Our own claims in an access token. */
export function shopClaims(o: { shopId: bigint; grantId: string }): Record<string, string> {
  return { shop_id: String(o.shopId), grant_id: o.grantId };
}

/** Address of the MCP server: the audience of every access token. */
export function mcpResource(issuer: string): string {
  return `${issuer}/mcp`;
}

/**
 * Whether a `resource` parameter names the MCP server: its address or that of this service. The MCP specification has
 * both as examples.
 */
export function namesMcp(issuer: string, resource: string): boolean {
  return namesOneOf([issuer, mcpResource(issuer)], resource);
}

/**
 * Whether a `resource` parameter is one of these addresses, in any spelling of the URL (RFC 3986, 6.2.3), with or without
 * a slash at its end.
 */
export function namesOneOf(addresses: readonly string[], resource: string): boolean {
  const [sent, ...own] = [resource, ...addresses].map((one) =>
    URL.parse(one)?.href.replace(/\/$/, ''),
  );
  return sent !== undefined && own.includes(sent);
}

/**
 * Creates a grant and an access token, without a sign-in. For local stacks and tests.
 *
 * @param o.issuer the service's public base address.
 * @param o.ttlS lifetime of the token in seconds; 12 hours when absent. A negative value makes an expired token.
 * @param o.isReadOnly whether the client may only read.
 * @throws when the user or the shop does not exist, or the database is unavailable.
 */
export async function issueAccessToken(
  pool: pg.Pool,
  keys: OAuthKeys,
  o: GrantFor & { readonly issuer: string; readonly ttlS?: number; readonly isReadOnly?: boolean },
): Promise<string> {
  const grantId = randomBytes(32).toString('base64url');
  const { userId, shopId, clientId, isReadOnly } = o;
  await storeGrant(pool, grantId, { userId, shopId, clientId, isReadOnly });
  const { kid, privateJwk } = await keys.signing();
  const now = Math.floor(Date.now() / 1_000);
  const expires = now + (o.ttlS ?? ACCESS_TOKEN_TTL_S);
  const claims = { ...shopClaims({ shopId: o.shopId, grantId }), client_id: o.clientId };
  return new SignJWT({ ...claims, scope: MCP_SCOPE })
    .setProtectedHeader({ alg: SIGNING_ALG, typ: 'at+jwt', kid })
    .setIssuer(o.issuer)
    .setAudience(mcpResource(o.issuer))
    .setSubject(String(o.userId))
    .setJti(randomUUID())
    .setIssuedAt(Math.min(now, expires - 60))
    .setExpirationTime(expires)
    .sign(await importJWK(privateJwk, SIGNING_ALG));
}

/**
 * Stores a grant. Returns false when this grant already exists.
 *
 * @param id at least 20 characters.
 * @param o.ttlS lifetime in seconds; 90 days when absent.
 * @param o.app host or scheme of the app.
 * @param o.isConsented whether the user saw the consent page, and agreed.
 * @param o.isReadOnly whether the client may only read.
 * @param o.selfName the name that the client gives itself.
 * @throws Error when the id belongs to another grant or to a revoked one.
 */
export async function storeGrant(
  db: Queryable,
  id: string,
  o: GrantFor & {
    readonly ttlS?: number;
    readonly app?: string | undefined;
    readonly isConsented?: boolean | undefined;
    readonly isReadOnly?: boolean | undefined;
    readonly selfName?: string | undefined;
  },
): Promise<boolean> {
  const whose = [o.shopId, id, o.userId, o.clientId];
  // The table has two unique keys. `on conflict` with a target would handle only one of them, and concurrent inserts
  // could fail on the other one.
  const stored = await db.query(
    `insert into oauth_grants (shop_id, id, user_id, client_id, expires_at, app, consented_at, read_only, self_name)
     values ($1, $2, $3, $4, now() + $5 * interval '1 second', $6, case when $7 then now() end, $8, $9)
     on conflict do nothing`,
    [
      ...whose,
      o.ttlS ?? DEFAULT_GRANT_DAYS * DAY_S,
      o.app || null,
      o.isConsented ?? false,
      o.isReadOnly ?? false,
      o.selfName ?? null,
    ],
  );
  if (stored.rowCount === 1) return true;
  const same = await db.query(
    `select from oauth_grants
      where shop_id = $1 and id = $2 and user_id = $3 and client_id = $4 and revoked_at is null
        for share`,
    whose,
  );
  if (same.rowCount !== 1) throw new Error('another grant has this id');
  return false;
}
