import type { JWK } from 'jose';
import { signPartnerToken } from '../identity/partner-tokens.ts';

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
    no_scope: await sign({ scope: '' }),
    expired: await sign({ expiresInS: -3_600 }),
    wrong_audience: await sign({ audience: 'https://elsewhere.example.com' }),
    not_installed: await sign({ clientId: 'another-app' }),
  };
}
