import express, { type Request, type Response, Router } from 'express';
import type Provider from 'oidc-provider';
import { createBoundedCache } from '../../../gateway/auth/bounded-cache.ts';
import { sendPage } from '../../../gateway/oauth/pages/response.ts';
import { type Account, authenticate } from './accounts.ts';
import { createGranting, type Granting } from './granting.ts';
import { INTERACTION_TTL_S, type ProviderOptions } from './provider.ts';
import { type Interaction, pagesOf, signInProblem } from './steps.ts';

/** Maximum number of sign-ins that wait for a decision; above it, the oldest one is dropped. */
const MAX_PENDING = 1_000;

interface Context {
  readonly provider: Provider;
  readonly options: ProviderOptions;
  readonly granting: Granting;
}

/** The pages between `/authorize` and the redirect: sign-in, choice of a shop if there are several, consent. */
export function interactionRoutes(provider: Provider, options: ProviderOptions): Router {
  const pending = createBoundedCache<Account>(MAX_PENDING);
  const granting = createGranting(provider, options, {
    get: (uid) => pending.get(uid),
    set: (uid, account) => pending.set(uid, account, INTERACTION_TTL_S * 1_000),
  });
  const context = { provider, options, granting };
  const router = Router();
  router.use('/interaction', express.urlencoded({ extended: false, limit: '8kb' }));
  router.get('/interaction/:uid', (req, res) => begin(context, req, res));
  router.post('/interaction/:uid/sign-in', (req, res) => signIn(context, req, res));
  router.post('/interaction/:uid/shop', (req, res) => granting.chooseShop(req, res));
  router.post('/interaction/:uid/allow', (req, res) => granting.decide(req, res));
  router.post('/interaction/:uid/cancel', (req, res) => granting.cancel(req, res));
  return router;
}

/** Shows the sign-in form, or the next step to a person who is signed in. */
async function begin({ provider, options, granting }: Context, req: Request, res: Response) {
  const interaction = await provider.interactionDetails(req, res);
  const { session, prompt, params } = interaction;
  const known = options.accounts.find((account) => account.id === session?.accountId);
  if (known && prompt.name !== 'login') return granting.next(known, req, res);
  const email = typeof params.login_hint === 'string' ? params.login_hint : '';
  sendPage(res, pagesOf(interaction, options).signIn({ email }));
}

async function signIn({ provider, options, granting }: Context, req: Request, res: Response) {
  const interaction = await provider.interactionDetails(req, res);
  const { session } = interaction;
  const email = String(req.body?.email ?? '');
  const account = authenticate(options.accounts, email, String(req.body?.password ?? ''));
  if (!account) {
    const failed = pagesOf(interaction, options).signIn({ email, problem: signInProblem });
    return sendPage(res, failed);
  }
  if (session && session.accountId !== account.id)
    await removeSession(provider, interaction, session.uid);
  await granting.next(account, req, res);
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
