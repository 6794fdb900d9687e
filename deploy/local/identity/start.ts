import { createServer } from 'node:http';
import express, { type Express } from 'express';
import helmet from 'helmet';
import { errors } from 'oidc-provider';
import { createBoundedCache } from '../../../gateway/auth/bounded-cache.ts';
import { ended, sendPage } from '../../../gateway/oauth/pages/response.ts';
import { type Listening, listenOnLoopback } from '../loopback.ts';
import { failurePage } from './error-page.ts';
import { interactionRoutes } from './interactions.ts';
import { createProvider, GRANT_DAYS, type IdentityOptions } from './provider.ts';
import { resourceRoutes } from './resource.ts';

const NO_PAGE = { defaultSrc: ["'none'"], baseUri: ["'none'"], frameAncestors: ["'none'"] };

/** Serves the bundled identity provider on loopback. */
export function startIdentity(
  options: IdentityOptions & { readonly port: number },
): Promise<Listening> {
  return listenOnLoopback(createServer(createIdentity(options)), options.port);
}

/** Maximum number of grants of partners' apps; above it, the oldest one ends. */
const MAX_GRANTS = 10_000;

/** The bundled identity provider. Only for development, because its accounts are in memory. */
export function createIdentity(identity: IdentityOptions): Express {
  const shopOfGrant = createBoundedCache<bigint>(MAX_GRANTS);
  const shops = {
    find: (grantId: string) => shopOfGrant.get(grantId),
    put: (grantId: string, shopId: bigint) =>
      shopOfGrant.set(grantId, shopId, GRANT_DAYS * 86_400_000),
  };
  const options = { ...identity, shops };
  const provider = createProvider(options);
  provider.on('server_error', (_ctx, error) => report(error));
  const app = express();
  app.disable('x-powered-by');
  // Pages replace these headers by their own, which allow their style and their forms.
  app.use(
    helmet({
      contentSecurityPolicy: { useDefaults: false, directives: NO_PAGE },
      strictTransportSecurity: false,
    }),
  );
  app.use(interactionRoutes(provider, options));
  app.use(resourceRoutes(identity.resource));
  app.use(provider.callback());
  app.use(((error, _req, res, next) => {
    if (res.headersSent) return next(error);
    if (error instanceof errors.SessionNotFound) return sendPage(res, ended());
    report(error);
    sendPage(res, failurePage());
  }) satisfies express.ErrorRequestHandler);
  return app;
}

function report(error: unknown): void {
  process.stderr.write(`identity: ${error instanceof Error ? error.stack : String(error)}\n`);
}
