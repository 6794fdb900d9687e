import { createServer } from 'node:http';
import express, { type Express, type Request, type Response, Router } from 'express';
import helmet from 'helmet';
import type Provider from 'oidc-provider';
import { errors } from 'oidc-provider';
import { ended, page, sendPage } from '../../../gateway/oauth/pages/response.ts';
import { type Listening, listenOnLoopback } from '../loopback.ts';
import { type Account, authenticate } from './accounts.ts';
import { failurePage, signInPage } from './pages.ts';
import { createProvider, type IdentityOptions } from './provider.ts';

const NO_PAGE = { defaultSrc: ["'none'"], baseUri: ["'none'"], frameAncestors: ["'none'"] };

/** Serves the bundled identity provider on loopback. */
export function startIdentity(
  options: IdentityOptions & { readonly port: number },
): Promise<Listening> {
  return listenOnLoopback(createServer(createIdentity(options)), options.port);
}

/** The bundled identity provider. Only for development, because its accounts are in memory. */
export function createIdentity(options: IdentityOptions): Express {
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

interface Context {
  readonly provider: Provider;
  readonly options: IdentityOptions;
}

type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>;

/** The sign-in form, between `/authorize` and the redirect. */
function interactionRoutes(provider: Provider, options: IdentityOptions): Router {
  const context = { provider, options };
  const router = Router();
  router.use('/interaction', express.urlencoded({ extended: false, limit: '8kb' }));
  router.get('/interaction/:uid', (req, res) => begin(context, req, res));
  router.post('/interaction/:uid/sign-in', (req, res) => signIn(context, req, res));
  return router;
}

/** Shows the sign-in form, or redirects a person who is signed in. */
async function begin(context: Context, req: Request, res: Response): Promise<void> {
  const { provider, options } = context;
  const interaction = await provider.interactionDetails(req, res);
  const { session, prompt, params } = interaction;
  const known = options.accounts.find((account) => account.id === session?.accountId);
  if (known && prompt.name !== 'login') return finish(context, { req, res, account: known });
  const email = typeof params.login_hint === 'string' ? params.login_hint : '';
  showForm(res, interaction, { email });
}

async function signIn(context: Context, req: Request, res: Response): Promise<void> {
  const { provider, options } = context;
  const interaction = await provider.interactionDetails(req, res);
  const { session } = interaction;
  const email = String(req.body?.email ?? '');
  const account = authenticate(options.accounts, email, String(req.body?.password ?? ''));
  if (!account) {
    const problem = 'That e-mail address and password do not belong together.';
    return showForm(res, interaction, { email, problem });
  }
  if (session && session.accountId !== account.id)
    await removeSession(provider, interaction, session.uid);
  await finish(context, { req, res, account });
}

function showForm(
  res: Response,
  { uid }: Interaction,
  o: { readonly email: string; readonly problem?: string },
): void {
  const body = signInPage({ action: `/interaction/${uid}/sign-in`, ...o });
  const status = o.problem === undefined ? 200 : 401;
  // After the form, browsers follow redirects to the app of an assistant at any address.
  sendPage(res, page(body, { status, formTargets: 'any' }));
}

/** Removes the session of another account. Otherwise oidc-provider would show a sign-out page with a script. */
async function removeSession(
  provider: Provider,
  interaction: Interaction,
  sessionUid: string,
): Promise<void> {
  interaction.session = undefined;
  await interaction.persist();
  const session = await provider.Session.findByUid(sessionUid);
  if (!session) return;
  session.accountId = undefined;
  session.authorizations = {};
  await session.persist();
}

/** Grants the identity of the account, and ends the interaction. oidc-provider redirects to the gateway. */
async function finish(
  { provider }: Context,
  {
    req,
    res,
    account,
  }: { readonly req: Request; readonly res: Response; readonly account: Account },
): Promise<void> {
  const { params } = await provider.interactionDetails(req, res);
  const { id: accountId } = account;
  const grant = new provider.Grant({ accountId, clientId: String(params.client_id) });
  grant.addOIDCScope(String(params.scope ?? ''));
  const grantId = await grant.save();
  const result = { login: { accountId }, consent: { grantId } };
  await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
}
