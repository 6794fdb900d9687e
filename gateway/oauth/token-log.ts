import type Provider from 'oidc-provider';
import type { KoaContextWithOIDC } from 'oidc-provider';
import type { Logger } from '../../services/platform/log.ts';
import { parseAccountId } from './account.ts';

/**
 * Error details of this form are logged. Longer texts and other characters are not, because they may be data of the
 * caller.
 */
const DETAIL = /^[a-zA-Z0-9 _(),.;:-]{1,120}$/;

/**
 * Logs issued, refreshed and rejected tokens, with user, shop, client, grant and request id. Never logs a token or a
 * code.
 */
export function logTokens(provider: Provider, logger: Logger): void {
  provider.on('grant.success', (ctx) => {
    const token = ctx.oidc.entities.AccessToken;
    const account = parseAccountId(token?.accountId ?? '');
    const isRefresh = ctx.oidc.params?.grant_type === 'refresh_token';
    logger.info(
      {
        ...requestOf(ctx),
        ...(account && { userId: String(account.userId), shopId: String(account.shopId) }),
        clientId: ctx.oidc.client?.clientId,
        grantId: token?.grantId,
      },
      isRefresh ? 'token refreshed' : 'token issued',
    );
  });
  provider.on('grant.error', (ctx, error) => {
    logger.warn({ ...requestOf(ctx), ...reasonOf(error) }, 'token refused');
  });
  provider.on('authorization.error', (ctx, error) => {
    logger.warn({ ...requestOf(ctx), ...reasonOf(error) }, 'authorization refused');
  });
}

/** The id of the HTTP request, as in the access log, and the client id. */
function requestOf(ctx: KoaContextWithOIDC) {
  return {
    requestId: ctx.res.getHeader('X-Request-Id'),
    clientId: ctx.oidc?.client?.clientId,
  };
}

function reasonOf(error: Error): { error: string; detail?: string } {
  const name: unknown = Reflect.get(error, 'error');
  const detail: unknown = Reflect.get(error, 'error_detail') ?? error.message;
  return {
    error: typeof name === 'string' ? name : error.name,
    ...(typeof detail === 'string' && DETAIL.test(detail) && { detail }),
  };
}
