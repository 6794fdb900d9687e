import { randomUUID } from 'node:crypto';
import { importJWK, type JWK, SignJWT } from 'jose';
import { PARTNER_TOKEN_TTL_S } from '../identity/provider.ts';

/** Interval at which the tokens in the stack file are replaced; they are valid for one hour. Milliseconds. */
export const RENEWAL_MS = 30 * 60_000;

export interface PartnerTokenContext {
  readonly key: JWK;
  readonly issuer: string;
  readonly audience: string;
  readonly clientId: string;
}

/** Creates one partner token of each kind for the stack file. */
export async function partnerTokensOf(context: PartnerTokenContext, shopId: number) {
  const good = {
    issuer: context.issuer,
    audience: context.audience,
    clientId: context.clientId,
    shopId,
  };
  const sign = (token: Partial<typeof good> & { scope?: string; expiresInS?: number }) =>
    signPartnerToken(context.key, { ...good, ...token });
  return {
    developer_tools: await sign({}),
    'labels:write': await sign({ scope: 'labels:write' }),
    'giftcards:write': await sign({ scope: 'giftcards:write' }),
    no_scope: await sign({ scope: '' }),
    expired: await sign({ expiresInS: -3_600 }),
    wrong_audience: await sign({ audience: 'https://elsewhere.example.com' }),
    not_installed: await sign({ clientId: 'another-app' }),
  };
}

/** The differences between the partner tokens of the stack file. */
interface PartnerToken {
  readonly issuer: string;
  readonly audience: string;
  readonly clientId: string;
  readonly shopId: number;
  /** Space-separated; `developer_tools` when absent. */
  readonly scope?: string;
  /** Seconds from now; negative for a token that has expired. */
  readonly expiresInS?: number;
}

/** Signs an access token as the identity provider does. */
async function signPartnerToken(key: JWK, token: PartnerToken): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const expires = now + (token.expiresInS ?? PARTNER_TOKEN_TTL_S);
  return new SignJWT({
    client_id: token.clientId,
    scope: token.scope ?? 'developer_tools',
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
