import type { IncomingMessage } from 'node:http';
import type { Logger } from '../../services/platform/log.ts';
import { linkAccount } from '../tenancy/sign-in-accounts.ts';
import { shopsOfEmail } from './account.ts';
import type { ConsentStep } from './consent.ts';
import { SignInLost } from './failure-page.ts';
import { grantContext } from './grant-context.ts';
import { ended, type PageResponse, redirect } from './pages/response.ts';
import {
  findRedirect,
  type ProviderRedirect,
  redirectToProvider,
  type SignInContext,
  showShopForm,
  storeRedirect,
} from './provider-redirect.ts';
import type { AuthorizationRequest, AuthorizationRequests } from './requests.ts';
import {
  confirmsEmail,
  type Identity,
  IdentityProviderUnavailable,
  SignInFailed,
} from './upstream.ts';

export interface CallbackContext extends SignInContext {
  readonly consent: ConsentStep;
  readonly logger: Logger;
}

/** The request of a browser that the identity provider redirected back. */
interface CallbackRequest {
  readonly req: IncomingMessage;
  /** The requested URL, with code and state. */
  readonly url: URL;
  readonly state: string;
  /** The redirect to the identity provider that this request completes. */
  readonly sent: ProviderRedirect;
  readonly request: AuthorizationRequest;
}

/**
 * The identity provider is unavailable, but the browser can retry the same URL, because the one-time record was stored
 * again.
 */
class RetryableUnavailable extends IdentityProviderUnavailable {}

/** Handles the redirect from the identity provider, and returns the next page. */
export async function handleCallback(
  o: CallbackContext,
  req: IncomingMessage,
  url: URL,
): Promise<PageResponse> {
  const state = url.searchParams.get('state') ?? '';
  const sent = await findRedirect(o.records, state);
  // Reject another browser. Otherwise an attacker could send a link that signs the user in as the attacker.
  if (!sent || o.cookies.knownBrowserOf(req) !== sent.browser) return ended();
  const request = await o.requests.find(sent.uid);
  // Take the record as late as possible, so that the user can retry after earlier failures. Of many concurrent
  // requests, one gets the record.
  if (!request || (await o.records.take('SignIn', state)) === undefined) return ended();
  const callback = { req, url, state, sent, request };
  try {
    const identity = await identify(o, callback);
    return identity instanceof SignInFailed
      ? await afterFailure(o, callback, identity)
      : await afterSignIn(o, callback, identity);
  } catch (error) {
    // The one-time record was taken, so a retry cannot succeed after any other failure.
    if (error instanceof RetryableUnavailable) throw error;
    throw new SignInLost('the one-time record is used up', { cause: error });
  }
}

/** Checks the response of the identity provider. */
async function identify(
  o: CallbackContext,
  { url, state, sent }: CallbackRequest,
): Promise<Identity | SignInFailed> {
  try {
    return await o.upstream.finish(url, { state, ...sent });
  } catch (error) {
    if (error instanceof SignInFailed) return error;
    if (!(error instanceof IdentityProviderUnavailable)) throw error;
    // The code may still be valid. Store the record again, so that the user can retry the same URL.
    await storeRedirect(o.records, state, sent);
    throw new RetryableUnavailable(error.message, { cause: error });
  }
}

async function afterFailure(
  o: CallbackContext,
  { req, sent, request }: CallbackRequest,
  failure: SignInFailed,
): Promise<PageResponse> {
  // This line shows operators an invalid configuration, such as a wrong client secret.
  o.logger.warn({ reason: failure.reason }, 'sign-in failed at the identity provider');
  const prompts = sent.prompts.filter((prompt) => prompt !== 'select_account');
  // `select_account` is optional, and some identity providers do not support it. So retry without it. `login` is
  // required, and all identity providers support it.
  if (failure.isInvalidRequest && prompts.length < sent.prompts.length) {
    return redirectToProvider(o, { req, request }, { ...sent, prompts });
  }
  if (failure.isTooWeak) return o.pages.tooWeak(request);
  // The user did not deny anything, so the page says to connect again, and the app gets no `access_denied`.
  if (failure.isProviderError) throw failure;
  return failure.isDenied ? deny(o.requests, sent.uid, 'the sign-in was denied') : ended();
}

/** Links the account, and continues with the shops that the account may use. */
async function afterSignIn(
  o: CallbackContext,
  { req, sent, request }: CallbackRequest,
  identity: Identity,
): Promise<PageResponse> {
  const { email, shopId } = sent;
  if (!confirmsEmail(identity, email)) {
    o.logger.warn('sign-in refused: another address, or one that is not confirmed');
    return o.pages.otherEmail(request);
  }
  const account = { issuer: identity.issuer, subject: identity.subject };
  const { linked, linkedToOther } = await linkAccount(o.pool, {
    email,
    account,
    from: grantContext(),
  });
  const isChosen = (id: bigint): boolean => shopId === null || String(id) === shopId;
  const shops = (await shopsOfEmail(o.pool, email)).filter((shop) => linked.includes(shop.shopId));
  const [shop, ...more] = shops.filter((one) => isChosen(one.shopId));
  if (!shop && linkedToOther.some(isChosen)) {
    o.logger.warn(
      { shops: linkedToOther.map(String) },
      'sign-in refused: another account is linked',
    );
    return o.pages.otherAccount(request);
  }
  if (!shop) {
    o.logger.info('sign-in refused: no shop is linked to the address');
    return o.pages.noEmail(request);
  }
  if (more.length === 0) return o.consent.begin(req, request, { shop, email });
  return showShopForm(o, request, { email, shops });
}

/** Denies the request with `access_denied`, and redirects the browser to the client. */
export async function deny(
  requests: AuthorizationRequests,
  uid: string,
  description: string,
): Promise<PageResponse> {
  const resume = await requests.deny(uid, description);
  return resume === undefined ? ended() : redirect(resume);
}
