import { randomUUID } from 'node:crypto';
import { importJWK, type JWK, SignJWT } from 'jose';
import { PARTNER_SCOPE, PARTNER_TOKEN_TTL_S } from './provider.ts';

/** The differences between the partner tokens of the stack file. */
export interface PartnerToken {
  readonly issuer: string;
  readonly audience: string;
  readonly clientId: string;
  readonly shopId: number;
  /** Space-separated; the full scope when absent. */
  readonly scope?: string;
  /** Seconds from now; negative for a token that has expired. */
  readonly expiresInS?: number;
}

/** Signs an access token as the identity provider does, for the stack file and tests. */
export async function signPartnerToken(key: JWK, token: PartnerToken): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const expires = now + (token.expiresInS ?? PARTNER_TOKEN_TTL_S);
  return new SignJWT({
    client_id: token.clientId,
    scope: token.scope ?? PARTNER_SCOPE,
    shop_id: token.shopId,
  })
    .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', ...(key.kid && { kid: key.kid }) })
    .setIssuer(token.issuer)
    .setAudience(token.audience)
    .setSubject(token.clientId)
    .setJti(randomUUID())
    .setIssuedAt(Math.min(now, expires - 60))
    .setExpirationTime(expires)
    .sign(await importJWK(key, 'RS256'));
}
