import express, { type Request, type Response, Router } from 'express';
import type Provider from 'oidc-provider';
import { type Account, authenticate } from './accounts.ts';
import { messagePage, shopPage, signInPage } from './pages.ts';
import { type IdentityOptions, PARTNER_SCOPE } from './provider.ts';

type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>;

/** Maximum number of sign-ins that wait for the choice of a shop; above it, the oldest one is dropped. */
const MAX_PENDING = 1_000;

/** The pages between `/authorize` and the redirect: the sign-in, and the choice of a shop if there are several. */
export function interactionRoutes(
  provider: Provider,
  options: IdentityOptions,
  shopOfGrant: Map<string, number>,
): Router {
  const signedIn = new Map<string, Account>();
  const router = Router();
  router.use('/interaction', express.urlencoded({ extended: false, limit: '8kb' }));

  router.get('/interaction/:uid', async (req, res) => {
    const { uid, session, prompt, params } = await provider.interactionDetails(req, res);
    const known = options.accounts.find((account) => account.id === session?.accountId);
    if (known && prompt.name !== 'login') return chooseShop(known, req, res);
    const email = typeof params.login_hint === 'string' ? params.login_hint : '';
    res.send(signInPage(`/interaction/${uid}/sign-in`, { email }));
  });

  router.post('/interaction/:uid/sign-in', async (req, res) => {
    const interaction = await provider.interactionDetails(req, res);
    const { uid, session } = interaction;
    const email = String(req.body?.email ?? '');
    const account = authenticate(options.accounts, email, String(req.body?.password ?? ''));
    if (!account) {
      res.status(401).send(signInPage(`/interaction/${uid}/sign-in`, { email, failed: true }));
      return;
    }
    if (session && session.accountId !== account.id) await forget(interaction, session.uid);
    await chooseShop(account, req, res);
  });

  router.post('/interaction/:uid/shop', async (req, res) => {
    const { uid } = await provider.interactionDetails(req, res);
    const account = signedIn.get(uid);
    const shop = Number(req.body?.shop_id);
    if (!account?.shopIds.includes(shop)) {
      res.status(400).send(messagePage('Not possible', 'Start again from your app.'));
      return;
    }
    await finish(account, shop, req, res);
  });

  /** Removes the session of another account; otherwise oidc-provider would show a sign-out page with a script. */
  async function forget(interaction: Interaction, sessionUid: string): Promise<void> {
    interaction.session = undefined;
    await interaction.persist();
    const session = await provider.Session.findByUid(sessionUid);
    if (!session) return;
    session.accountId = undefined;
    session.authorizations = {};
    await session.persist();
  }

  async function chooseShop(account: Account, req: Request, res: Response) {
    const { uid, params } = await provider.interactionDetails(req, res);
    const [first, ...more] = asksForShop(params) ? account.shopIds : [];
    if (more.length === 0) return finish(account, first, req, res);
    signedIn.set(uid, account);
    const [oldest] = signedIn.keys();
    if (signedIn.size > MAX_PENDING && oldest) signedIn.delete(oldest);
    res.send(shopPage(`/interaction/${uid}/shop`, String(params.client_id), account.shopIds));
  }

  async function finish(account: Account, shop: number | undefined, req: Request, res: Response) {
    const { params, uid } = await provider.interactionDetails(req, res);
    signedIn.delete(uid);
    if (shop === undefined && asksForShop(params)) {
      // There is nothing to grant. Without this refusal, oidc-provider would ask for consent in an endless loop.
      const error_description = 'there is no shop to act for';
      const refusal = { error: 'access_denied', error_description };
      await provider.interactionFinished(req, res, refusal, { mergeWithLastSubmission: false });
      return;
    }
    const grant = new provider.Grant({ accountId: account.id, clientId: String(params.client_id) });
    grant.addOIDCScope('openid email profile');
    if (shop !== undefined) grant.addResourceScope(options.resource, PARTNER_SCOPE);
    const grantId = await grant.save();
    if (shop !== undefined) shopOfGrant.set(grantId, shop);
    await provider.interactionFinished(
      req,
      res,
      { login: { accountId: account.id }, consent: { grantId } },
      { mergeWithLastSubmission: false },
    );
  }

  return router;
}

/** Whether a request needs a shop: a partner's app acts for a shop, the sign-in of this service needs only the user. */
function asksForShop(params: Readonly<Record<string, unknown>>): boolean {
  return String(params.scope ?? '')
    .split(' ')
    .includes(PARTNER_SCOPE);
}
