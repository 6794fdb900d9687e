import type { IncomingMessage, ServerResponse } from 'node:http';
import type Provider from 'oidc-provider';
import type { Logger } from '../../services/platform/log.ts';
import { CONNECT_AGAIN, failurePage } from './failure-page.ts';
import type { OAuthKeys } from './keys.ts';
import {
  badRequest,
  ended,
  type PageResponse,
  RETRY_AFTER_S,
  unavailable,
} from './pages/response.ts';
import { createProvider, type ProviderOptions } from './provider.ts';
import { type AuthorizationRequest, requestOf } from './requests.ts';
import { logTokens } from './token-log.ts';

/** Runs oidc-provider with the newest signing key. */
export interface AuthorizationServer {
  /** Returns oidc-provider with the newest signing key. Rejects when the database is unavailable. */
  current(): Promise<Provider>;
  /** Handles one request. Rejects when the database is unavailable. */
  handle(req: IncomingMessage, res: ServerResponse): Promise<void>;
}

export interface AuthorizationServerOptions extends Omit<ProviderOptions, 'renderError'> {
  readonly keys: OAuthKeys;
  readonly logger: Logger;
  /** Returns the first page for a valid authorization request. */
  readonly begin: (req: IncomingMessage, request: AuthorizationRequest) => Promise<PageResponse>;
}

export function createAuthorizationServer(o: AuthorizationServerOptions): AuthorizationServer {
  let built:
    | {
        readonly kid: string;
        readonly provider: Provider;
        readonly callback: ReturnType<Provider['callback']>;
      }
    | undefined;
  const newest = async (): Promise<NonNullable<typeof built>> => {
    const key = await o.keys.signing();
    if (built?.kid === key.kid) return built;
    const provider = build(o, key);
    built = { kid: key.kid, provider, callback: provider.callback() };
    return built;
  };
  const { host, protocol } = new URL(o.issuer);
  return {
    current: async () => (await newest()).provider,
    async handle(req, res) {
      const { callback } = await newest();
      // oidc-provider builds its URLs and cookies from these headers. Set them here, so that the client cannot choose
      // their values.
      req.headers.host = host;
      req.headers['x-forwarded-host'] = host;
      req.headers['x-forwarded-proto'] = protocol.slice(0, -1);
      await callback(req, res);
    },
  };
}

function build(
  o: AuthorizationServerOptions,
  key: Awaited<ReturnType<OAuthKeys['signing']>>,
): Provider {
  const provider = createProvider(
    { ...o, renderError: (ctx, out) => writePage(ctx, errorPage(out.error, ctx.oidc.route)) },
    key,
  );
  logTokens(provider, o.logger);
  provider.on('server_error', (_ctx, err) => o.logger.error({ err }, 'sign-in failed'));
  // The middleware below logs the other errors. Without this, Koa would print them as well.
  provider.silent = true;
  provider.use(async (ctx, next) => {
    try {
      await next();
      if (ctx.status === 503) ctx.set('Retry-After', String(RETRY_AFTER_S));
      dropCookie(ctx, o.cookies.names.session);
      const interaction = ctx.oidc?.route === 'authorization' && ctx.oidc.entities.Interaction;
      const request = interaction && ctx.status === 303 ? requestOf(interaction) : undefined;
      if (request) writePage(ctx, await o.begin(ctx.req, request));
    } catch (error) {
      writePage(ctx, failurePage(error, o.logger));
    }
  });
  return provider;
}

/** The part of Koa's context that writes a response. */
interface Context {
  status: number;
  body: unknown;
  readonly response: { get(name: string): string | string[] | undefined };
  set(name: string, value: string | string[]): void;
  append(name: string, value: string): void;
  remove(name: string): void;
}

/** Removes the session cookie from the response, because sessions are not stored. */
function dropCookie(ctx: Context, name: string): void {
  const cookies = [ctx.response.get('Set-Cookie') ?? ''].flat().filter((cookie) => cookie !== '');
  const others = cookies.filter((cookie) => !cookie.startsWith(`${name}=`));
  if (others.length === cookies.length) return;
  ctx.remove('Set-Cookie');
  if (others.length > 0) ctx.set('Set-Cookie', others);
}

function writePage(ctx: Context, page: PageResponse): void {
  ctx.remove('Location');
  for (const [name, value] of Object.entries(page.headers)) ctx.set(name, value);
  for (const cookie of page.cookies) ctx.append('Set-Cookie', cookie);
  ctx.body = page.body;
  ctx.status = page.status;
  // Koa guesses the content type of each body and overwrites the header. Restore the header of the page.
  const type = page.headers['Content-Type'];
  if (type === undefined) ctx.remove('Content-Type');
  else ctx.set('Content-Type', type);
}

/**
 * @param error the OAuth error code.
 * @param route oidc-provider's name of the route.
 */
function errorPage(error: string, route: string): PageResponse {
  switch (error) {
    case 'temporarily_unavailable':
    case 'server_error':
      // On `resume`, oidc-provider deletes the authorization request before it stores the code. So a retry would fail.
      return unavailable(route === 'resume' ? CONNECT_AGAIN : 'Try again in a moment.');
    case 'invalid_request':
    case 'access_denied':
      // The cookie of the browser or the stored request no longer exists.
      return ended();
    default:
      return badRequest('The app that sent you here sent a request that we do not support.');
  }
}
