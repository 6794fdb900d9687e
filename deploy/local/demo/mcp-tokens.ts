import type pg from 'pg';
import { issueAccessToken } from '../../../gateway/oauth/issue.ts';
import type { OAuthKeys } from '../../../gateway/oauth/keys.ts';
import { findUser } from '../../../gateway/tenancy/users.ts';

/** They live twelve hours: a stack that runs on has newer ones long before. Milliseconds. */
const RENEWAL_MS = 4 * 3_600_000;
/** How long the expired ones have been so. Seconds. */
const EXPIRED_S = 3_600;

export interface McpTokenContext {
  readonly pool: pg.Pool;
  readonly keys: OAuthKeys;
  /** `{base_url}`. */
  readonly issuer: string;
  readonly clientId: string;
}

/** A person, and the shops whose tokens they hold; a token may outlast the membership. */
export interface Holder {
  readonly email: string;
  readonly shopIds: readonly number[];
}

/** Tokens by shop id, and beside each an expired one as `<shop id>_expired`. */
export type McpTokens = Readonly<Record<string, string>>;

/** Makes the MCP tokens of the stack file: the same ones again for a few hours, then others. */
export function createMcpTokens(context: McpTokenContext): (o: Holder) => Promise<McpTokens> {
  const made = new Map<string, { readonly tokens: McpTokens; readonly at: number }>();
  return async (holder) => {
    const known = made.get(holder.email);
    if (known && performance.now() - known.at < RENEWAL_MS) return known.tokens;
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
      ...{ issuer, clientId, userId: user.id, shopId: BigInt(shopId) },
      ...o,
    });
  const tokens: Record<string, string> = {};
  for (const shopId of shopIds) {
    tokens[shopId] = await issue(shopId, {});
    tokens[`${shopId}_expired`] = await issue(shopId, { ttlS: -EXPIRED_S });
  }
  return tokens;
}
