import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createAuthorizationServer } from './authorization-server.ts';
import { createSelfNames } from './clients/self-name.ts';
import { type Cookies, createCookies } from './cookies.ts';
import type { OAuthDependencies } from './dependencies.ts';
import { createGrants } from './grants.ts';
import { mcpResource } from './issue.ts';
import type { OAuthKeys } from './keys.ts';
import { createOneTimeRecords } from './one-time-records.ts';
import { SIGN_IN_TTL_S } from './provider.ts';
import { createRequests } from './requests.ts';
import { createSignIn, type SignIn } from './sign-in.ts';
import { createUpstream } from './upstream.ts';

/** The parts of a sign-in that the routes use. */
export interface SignInParts {
  readonly signIn: SignIn;
  readonly cookies: Cookies;
  /** Whether a sign-in with this id exists and has not ended. */
  isPending(uid: string): Promise<boolean>;
  /** Passes the request to oidc-provider. `url` replaces its URL. */
  forward(req: IncomingMessage, res: ServerResponse, url: string): Promise<void>;
}

export function createSignInParts(
  o: Omit<OAuthDependencies, 'signIn'>,
  { keys, provider }: NonNullable<OAuthDependencies['signIn']> & { readonly keys: OAuthKeys },
): SignInParts {
  const { pool, issuer, clients, logger, grantDays, formOrigins, mails } = o;
  const records = createOneTimeRecords(pool);
  const cookies = createCookies(issuer, SIGN_IN_TTL_S);
  const arrivals = new AsyncLocalStorage<number>();
  const requests = createRequests(issuer, () => server.current());
  const server = createAuthorizationServer({
    issuer,
    pool,
    records,
    grants: createGrants({ pool, resource: mcpResource(issuer), logger, mails }),
    clients,
    cookies,
    grantDays,
    keys,
    logger,
    arrivedMsAgo: () => performance.now() - (arrivals.getStore() ?? performance.now()),
    begin: (req, request) => signIn.begin(req, request),
  });
  const signIn = createSignIn({
    pool,
    records,
    selfNames: createSelfNames(records, o.clientIp),
    clients,
    cookies,
    grantDays,
    formOrigins,
    upstream: createUpstream({ ...provider, redirectUri: `${issuer}/oauth/callback` }),
    requests,
    logger,
  });
  return {
    signIn,
    cookies,
    isPending: async (uid) => (await requests.find(uid)) !== undefined,
    async forward(req, res, url) {
      req.url = url;
      // oidc-provider has no routes for HEAD.
      if (req.method === 'HEAD') req.method = 'GET';
      // oidc-provider uses `originalUrl`, which Express sets. It must be the replaced URL, too.
      Reflect.set(req, 'originalUrl', url);
      await arrivals.run(performance.now(), () => server.handle(req, res));
    },
  };
}
