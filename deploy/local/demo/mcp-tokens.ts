import type pg from 'pg';
import { issueAccessToken } from '../../../gateway/oauth/issue.ts';
import type { OAuthKeys } from '../../../gateway/oauth/keys.ts';
import { findUser } from '../../../gateway/tenancy/users.ts';

/** Interval at which tokens are replaced; they are valid for twelve hours. Milliseconds. */
const RENEWAL_MS = 4 * 3_600_000;
/** Time since the expired tokens expired. Seconds. */
const EXPIRED_S = 3_600;

export interface McpTokenContext {
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
