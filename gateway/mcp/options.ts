import type pg from 'pg';
import { createAccessTokenCheck } from '../oauth/access-token.ts';
import { mcpResource } from '../oauth/issue.ts';
import { createOAuthKeys } from '../oauth/keys.ts';
import type { GatewayOptions } from '../options.ts';

export function mcpOptions(o: GatewayOptions, pool: pg.Pool, used: (grantId: string) => void) {
  const publicUrl = o.publicUrl ?? `http://127.0.0.1:${o.port}`;
  const keys = o.oauthKeyring && createOAuthKeys(pool, o.oauthKeyring);
  const tokens = keys
    ? createAccessTokenCheck({
        pool,
        issuer: publicUrl,
        resource: mcpResource(publicUrl),
        keys,
        used,
      })
    : { check: async () => undefined };
  return { pool, publicUrl, tokens, allowedOrigins: o.mcpAllowedOrigins ?? [] };
}
