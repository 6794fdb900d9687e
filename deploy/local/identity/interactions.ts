import express, { type Request, type Response, Router } from 'express';
import type Provider from 'oidc-provider';
import { type Account, authenticate } from './accounts.ts';
import { messagePage, shopPage, signInPage } from './pages.ts';
import { type IdentityOptions, PARTNER_SCOPES } from './provider.ts';

type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>;

/** Maximum number of sign-ins that wait for the choice of a shop; above it, the oldest one is dropped. */
const MAX_PENDING = 1_000;

interface Context {
  readonly provider: Provider;
  readonly options: IdentityOptions;
  /** The chosen shop. Written when a user agrees, read when a token is created. */
  readonly shopOfGrant: Map<string, number>;
  /** The users who still have to choose a shop, by interaction. */
  readonly choosing: Map<string, Account>;
}

/** The pages between `/authorize` and the redirect: the sign-in, and the choice of a shop if there are several. */
export function interactionRoutes(
  provider: Provider,
  options: IdentityOptions,
  shopOfGrant: Map<string, number>,
): Router {
  const context: Context = { provider, options, shopOfGrant, choosing: new Map() };
  const router = Router();
  router.use('/interaction', express.urlencoded({ extended: false, limit: '8kb' }));
  router.get('/interaction/:uid', (req, res) => showSignIn(context, req, res));
  router.post('/interaction/:uid/sign-in', (req, res) => signIn(context, req, res));
  router.post('/interaction/:uid/shop', (req, res) => submitShop(context, req, res));
  return router;
}

async function showSignIn(context: Context, req: Request, res: Response): Promise<void> {
  const { provider, options } = context;
  const { uid, session, prompt, params } = await provider.interactionDetails(req, res);
  const known = options.accounts.find((account) => account.id === session?.accountId);
  if (known && prompt.name !== 'login') return showShops(context, known, req, res);
  const email = typeof params.login_hint === 'string' ? params.login_hint : '';
  res.send(signInPage(`/interaction/${uid}/sign-in`, { email }));
}

async function signIn(context: Context, req: Request, res: Response): Promise<void> {
  const { provider, options } = context;
  const interaction = await provider.interactionDetails(req, res);
  const { uid, session } = interaction;
  const email = String(req.body?.email ?? '');
  const account = authenticate(options.accounts, email, String(req.body?.password ?? ''));
  if (!account) {
    res.status(401).send(signInPage(`/interaction/${uid}/sign-in`, { email, failed: true }));
    return;
  }
  if (session && session.accountId !== account.id)
    await removeSession(provider, interaction, session.uid);
  await showShops(context, account, req, res);
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

async function showShops(context: Context, account: Account, req: Request, res: Response) {
  const { provider, choosing } = context;
  const { uid, params } = await provider.interactionDetails(req, res);
  const [first, ...more] = needsShop(params) ? account.shopIds : [];
  if (more.length === 0) return finish(context, { account, shop: first }, req, res);
  choosing.set(uid, account);
  const [oldest] = choosing.keys();
  if (choosing.size > MAX_PENDING && oldest) choosing.delete(oldest);
  res.send(shopPage(`/interaction/${uid}/shop`, String(params.client_id), account.shopIds));
}

async function submitShop(context: Context, req: Request, res: Response): Promise<void> {
  const { uid } = await context.provider.interactionDetails(req, res);
  const account = context.choosing.get(uid);
  const shop = Number(req.body?.shop_id);
  if (!account?.shopIds.includes(shop)) {
    res.status(400).send(messagePage('Not possible', 'Start again from your app.'));
    return;
  }
  await finish(context, { account, shop }, req, res);
}

async function finish(
  { provider, options, shopOfGrant, choosing }: Context,
  { account, shop }: { readonly account: Account; readonly shop: number | undefined },
  req: Request,
  res: Response,
): Promise<void> {
  const { params, uid } = await provider.interactionDetails(req, res);
  choosing.delete(uid);
  if (shop === undefined && needsShop(params)) {
    // There is nothing to grant. Without this rejection, oidc-provider would request consent in an endless loop.
    const error_description = 'there is no shop to act for';
    const refusal = { error: 'access_denied', error_description };
    await provider.interactionFinished(req, res, refusal, { mergeWithLastSubmission: false });
    return;
  }
  const grant = new provider.Grant({ accountId: account.id, clientId: String(params.client_id) });
  grant.addOIDCScope('openid email profile');
  if (shop !== undefined) grant.addResourceScope(options.resource, PARTNER_SCOPES.join(' '));
  const grantId = await grant.save();
  if (shop !== undefined) shopOfGrant.set(grantId, shop);
  await provider.interactionFinished(
    req,
    res,
    { login: { accountId: account.id }, consent: { grantId } },
    { mergeWithLastSubmission: false },
  );
}

/** Whether a request needs a shop: a partner's app acts for a shop, the sign-in of this service needs only the user. */
function needsShop(params: Readonly<Record<string, unknown>>): boolean {
  const requested = String(params.scope ?? '').split(' ');
  return PARTNER_SCOPES.some((scope) => requested.includes(scope));
}
