import { createServer } from 'node:http';
import express, { type Express } from 'express';
import helmet from 'helmet';
import { type Listening, listenOnLoopback } from '../loopback.ts';
import { interactionRoutes } from './interactions.ts';
import { messagePage } from './pages.ts';
import { createProvider, type IdentityOptions } from './provider.ts';

/** Serves the bundled identity provider on loopback. */
export function startIdentity(
  options: IdentityOptions & { readonly port: number },
): Promise<Listening> {
  return listenOnLoopback(createServer(createIdentity(options)), options.port);
}

/** The bundled identity provider. Only for development, because its accounts are in memory. */
export function createIdentity(options: IdentityOptions): Express {
  const shopOfGrant = new Map<string, number>();
  const provider = createProvider(options, shopOfGrant);
  const app = express();
  app.disable('x-powered-by');
  // Forms must be able to redirect to the app at any URL.
  app.use(
    helmet({
      contentSecurityPolicy: { directives: { formAction: null } },
      strictTransportSecurity: false,
    }),
  );
  app.use(interactionRoutes(provider, options, shopOfGrant));
  app.use(provider.callback());
  app.use(((_error, _req, res, next) => {
    if (res.headersSent) return next(_error);
    res
      .status(400)
      .send(messagePage('Not possible', 'This sign-in has expired. Start again from your app.'));
  }) satisfies express.ErrorRequestHandler);

  return app;
}
