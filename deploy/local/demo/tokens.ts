import type pg from 'pg';
import { partnerIssuer } from '../../../gateway/oauth/partners/address.ts';
import { issuePartnerGrant, signPartnerToken } from '../../../gateway/oauth/partners/tokens.ts';
import { issueAccessToken } from '../../../gateway/oauth/tokens/issue.ts';
import type { OAuthKeys } from '../../../gateway/oauth/tokens/keys.ts';
import { listMembers } from '../../../gateway/tenancy/members.ts';
import { findUser } from '../../../gateway/tenancy/users.ts';
import { PARTNER_SCOPES } from '../../../services/contract/operations.ts';
import { LOCAL_ACTOR } from '../clients.ts';

/** Interval at which tokens are replaced; they are valid for twelve hours. Milliseconds. */
const MCP_RENEWAL_MS = 4 * 3_600_000;
/** Time since the expired tokens expired. Seconds. */
const EXPIRED_S = 3_600;

interface McpTokenContext {
  readonly pool: pg.Pool;
  readonly keys: OAuthKeys;
  /** `{base_url}`. */
  readonly issuer: string;
  readonly clientId: string;
}

/** A person, and the shops of their tokens. A token may exist longer than the membership. */
export interface Holder {
  readonly email: string;
  readonly shopIds: readonly number[];
}

/** Tokens by shop id, and for each shop an expired one as `<shop id>_expired`. */
export type McpTokens = Readonly<Record<string, string>>;

/** Creates the MCP tokens of the stack file. They are reused for a few hours and then replaced. */
export function createMcpTokens(context: McpTokenContext): (o: Holder) => Promise<McpTokens> {
  const made = new Map<string, { readonly tokens: McpTokens; readonly at: number }>();
  return async (holder) => {
    const issued = made.get(holder.email);
    if (issued && performance.now() - issued.at < MCP_RENEWAL_MS) return issued.tokens;
    const tokens = await tokensOf(context, holder);
    made.set(holder.email, { tokens, at: performance.now() });
    return tokens;
  };
}

async function tokensOf(context: McpTokenContext, { email, shopIds }: Holder): Promise<McpTokens> {
  const { pool, keys, issuer, clientId } = context;
  const user = await findUser(pool, email);
  if (!user) return {};
  const issue = (shopId: number, o: { ttlS?: number }) =>
    issueAccessToken(pool, keys, {
      issuer,
      clientId,
      userId: user.id,
      shopId: BigInt(shopId),
      ...o,
    });
  const tokens: Record<string, string> = {};
  for (const shopId of shopIds) {
    tokens[shopId] = await issue(shopId, {});
    tokens[`${shopId}_expired`] = await issue(shopId, { ttlS: -EXPIRED_S });
  }
  return tokens;
}

/** Interval at which the tokens in the stack file are replaced; they are valid for one hour. Milliseconds. */
export const RENEWAL_MS = 30 * 60_000;

interface PartnerTokenContext {
  readonly pool: pg.Pool;
  /** The keys of partners' tokens. */
  readonly keys: OAuthKeys;
  /** `{base_url}`. */
  readonly baseUrl: string;
  readonly clientId: string;
}

/** Creates one partner token of each kind for the stack file. All are by one consent of an owner of the shop. */
export async function partnerTokensOf(context: PartnerTokenContext, shop: number) {
  const { pool, keys, baseUrl, clientId } = context;
  const shopId = BigInt(shop);
  const owner = (await listMembers(pool, shopId)).find(({ role }) => role === 'owner');
  if (!owner) return {};
  const whose = { issuer: partnerIssuer(baseUrl), clientId, userId: owner.userId, shopId };
  const by = { actor: LOCAL_ACTOR, source: 'npm start' };
  const grantId = await issuePartnerGrant(pool, { ...whose, requested: PARTNER_SCOPES, by });
  const good = { ...whose, audience: baseUrl, grantId, scopes: ['developer_tools'] };
  const sign = (o: Partial<Parameters<typeof signPartnerToken>[1]>) =>
    signPartnerToken(keys, { ...good, ...o });
  const scoped = await Promise.all(
    PARTNER_SCOPES.map(async (scope) => [scope, await sign({ scopes: [scope] })] as const),
  );
  return {
    ...Object.fromEntries(scoped),
    no_scope: await sign({ scopes: [] }),
    expired: await sign({ expiresInS: -3_600 }),
    wrong_audience: await sign({ audience: 'https://elsewhere.example.com' }),
    not_installed: await sign({ clientId: 'another-app' }),
  };
}
