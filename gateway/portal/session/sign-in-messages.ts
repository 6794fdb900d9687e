import { messagePage } from '../../oauth/pages/pages.ts';
import { type PageResponse, page } from '../../oauth/pages/response.ts';

/** The pages that end a sign-in to the portal without a session. */
const MESSAGES = {
  ended: {
    status: 400,
    title: 'This sign-in has ended',
    text: 'This sign-in is already complete, or it took too long, or it began in another browser. Open the portal and sign in again.',
  },
  denied: {
    status: 403,
    title: 'You did not sign in',
    text: 'The sign-in was cancelled. Open the portal to sign in.',
  },
  providerError: {
    status: 503,
    title: 'The page where you sign in does not answer',
    text: 'It reported an error of its own. Open the portal and sign in again in a moment.',
  },
  tooWeak: {
    status: 403,
    title: 'A fresh or stronger sign-in is needed',
    text: 'The page where you sign in must confirm that you have just signed in, or that you used a second factor. Open the portal and sign in again. If you see this page again, tell the operator of this service.',
  },
  notConfirmed: {
    status: 403,
    title: 'Your address is not confirmed',
    text: 'The page where you sign in does not confirm that you have an e-mail address. Confirm your address there, then open the portal again.',
  },
  noShop: {
    status: 403,
    title: 'No shop is linked to your address',
    text: 'You are signed in, but no shop has the address that you signed in with. If you are invited, open the link in that mail. Otherwise ask an owner or admin of your shop to invite this address under Team and roles, or sign in with another address.',
  },
  otherAccount: {
    status: 403,
    title: 'Another account is linked to this address',
    text: 'In your shop, your address is linked to another account of the page where you sign in. If you have lost that account, ask an owner or admin of the shop to remove you from the team and invite you again, or ask the operator of this service to unlink the account. Then open the portal again.',
  },
} as const;

/** @param again where the person signs in again. */
export function signInMessage(
  name: keyof typeof MESSAGES,
  again: string = SIGN_IN_AGAIN,
): PageResponse {
  const { status, title, text } = MESSAGES[name];
  return page(messagePage({ title, text, next: { href: again, text: 'Sign in' } }), { status });
}

/** Asks the identity provider to show its form, so that another address can be entered. */
const SIGN_IN_AGAIN = '/portal/sign-in?prompt=login';
