import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Request, Response } from 'express';
import type Provider from 'oidc-provider';
import { ended, sendPage, unknownChoice } from '../../../gateway/oauth/pages/response.ts';
import type { Account } from './accounts.ts';
import type { ShopOfAccount } from './directory.ts';
import type { ProviderOptions } from './provider.ts';
import { requestedScopes } from './scopes.ts';
import { type Interaction, isPartner, pagesOf } from './steps.ts';

/** The people who have signed in and still have to decide, by interaction. */
export interface PendingPeople {
  get(uid: string): Account | undefined;
  set(uid: string, account: Account): void;
}

/** The steps after the sign-in: the choice of a shop, and the consent. Each sends the response. */
export interface Granting {
  /** Shows the next page to a person who has signed in, or redirects to the app. */
  next(account: Account, req: Request, res: Response): Promise<void>;
  /** Handles the form with the shop. */
  chooseShop(req: Request, res: Response): Promise<void>;
  /** Handles the form of the consent page. */
  decide(req: Request, res: Response): Promise<void>;
  /** Ends the request with `access_denied`. */
  cancel(req: Request, res: Response): Promise<void>;
}

/** @param pending keeps the people between the pages. */
export function createGranting(
  provider: Provider,
  options: ProviderOptions,
  pending: PendingPeople,
): Granting {
  /** Ends the interaction. oidc-provider redirects to the app. */
  const finish = (req: Request, res: Response, result: Record<string, unknown>) =>
    provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
  const deny = (req: Request, res: Response, error_description: string) =>
    finish(req, res, { error: 'access_denied', error_description });

  /** Shows the consent page for the shop with this id, if the person may connect apps to it. */
  const askFor = async (interaction: Interaction, account: Account, shopId: string) => {
    const shops = await options.directory(account);
    const shop = shops.find((one) => String(one.shopId) === shopId);
    const pages = pagesOf(interaction, options);
    if (!shop) return pages.shops(connectable(shops), 'Choose one of your shops.');
    if (!shop.mayConnect) return pages.notAllowed(account.email, [shop]);
    const csrf = csrfOf(options, interaction.uid, shopId);
    return pages.consent({ shop, email: account.email, csrf });
  };

  return {
    async next(account, req, res) {
      const interaction = await provider.interactionDetails(req, res);
      if (!isPartner(interaction, options))
        return finish(req, res, await grant(provider, options, { interaction, account }));
      if (requestedScopes(interaction.params.scope).shop.length === 0) {
        const error_description = 'the app requested no scope of partner tokens';
        return finish(req, res, { error: 'invalid_scope', error_description });
      }
      pending.set(interaction.uid, account);
      const shops = await options.directory(account);
      const [first, ...more] = connectable(shops);
      const pages = pagesOf(interaction, options);
      if (!first) return sendPage(res, pages.notAllowed(account.email, shops));
      if (more.length > 0) return sendPage(res, pages.shops([first, ...more]));
      sendPage(res, await askFor(interaction, account, String(first.shopId)));
    },

    async chooseShop(req, res) {
      const interaction = await provider.interactionDetails(req, res);
      const account = pending.get(interaction.uid);
      if (!account) return sendPage(res, ended());
      sendPage(res, await askFor(interaction, account, String(req.body?.shop_id ?? '')));
    },

    async decide(req, res) {
      const interaction = await provider.interactionDetails(req, res);
      const account = pending.get(interaction.uid);
      if (req.body?.consent === 'deny') return deny(req, res, 'the user denied access');
      if (req.body?.consent !== 'allow') return sendPage(res, unknownChoice());
      // The permission is read again: it may have ended while the page was open.
      const shops = account ? await options.directory(account) : [];
      const shop = shops.find(({ shopId }) =>
        isSame(String(req.body?.csrf ?? ''), csrfOf(options, interaction.uid, String(shopId))),
      );
      if (!account || !shop) return sendPage(res, ended());
      if (!shop.mayConnect)
        return sendPage(res, pagesOf(interaction, options).notAllowed(account.email, [shop]));
      await finish(req, res, await grant(provider, options, { interaction, account, shop }));
    },

    async cancel(req, res) {
      await provider.interactionDetails(req, res);
      await deny(req, res, 'the user denied access');
    },
  };
}

/** Stores the grant, and returns the result of the interaction. Without a shop it is for the user's identity only. */
async function grant(
  provider: Provider,
  options: ProviderOptions,
  o: {
    readonly interaction: Interaction;
    readonly account: Account;
    readonly shop?: ShopOfAccount;
  },
): Promise<Record<string, unknown>> {
  const { params } = o.interaction;
  const { id: accountId } = o.account;
  const scopes = requestedScopes(params.scope);
  const made = new provider.Grant({ accountId, clientId: String(params.client_id) });
  made.addOIDCScope(scopes.openid.join(' '));
  if (o.shop) made.addResourceScope(options.resource, scopes.shop.join(' '));
  const grantId = await made.save();
  if (o.shop) options.shops.put(grantId, o.shop.shopId);
  return { login: { accountId }, consent: { grantId } };
}

function connectable(shops: readonly ShopOfAccount[]): ShopOfAccount[] {
  return shops.filter(({ mayConnect }) => mayConnect);
}

/** The value of the hidden field: only the consent page of this interaction and shop has it. */
function csrfOf({ cookieSecret }: ProviderOptions, uid: string, shopId: string): string {
  return createHmac('sha256', cookieSecret).update(`consent ${uid} ${shopId}`).digest('base64url');
}

function isSame(sent: string, expected: string): boolean {
  const [a, b] = [Buffer.from(sent), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
