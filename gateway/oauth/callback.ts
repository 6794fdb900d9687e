import type { IncomingMessage } from 'node:http';
import type { Logger } from '../../services/platform/log.ts';
import { linkAccount } from '../tenancy/sign-in-accounts.ts';
import { shopsOfEmail } from './account.ts';
import type { ConsentStep } from './consent.ts';
import { SignInLost } from './failures.ts';
import { grantContext } from './grant-context.ts';
import { ended, type PageResponse, redirect } from './pages/response.ts';
import type { AuthorizationRequest, AuthorizationRequests } from './requests.ts';
import { type Identity, IdentityProviderUnavailable, proves, SignInRefused } from './upstream.ts';
import {
  askShop,
  findSent,
  type SentUpstream,
  type SignInContext,
  sendUpstream,
  storeSent,
} from './upstream-redirect.ts';

export interface CallbackContext extends SignInContext {
  readonly consent: ConsentStep;
  readonly logger: Logger;
}

/** A browser that came back from the identity provider. */
interface Return {
  readonly req: IncomingMessage;
  /** The requested URL, with code and state. */
  readonly url: URL;
  readonly state: string;
  readonly sent: SentUpstream;
  readonly request: AuthorizationRequest;
}

/** The one-time record was stored again, so the browser can retry the same URL. */
class RetryableUnavailable extends IdentityProviderUnavailable {}

/** Handles the redirect from the identity provider, and returns the next page. */
export async function handleCallback(
  o: CallbackContext,
  req: IncomingMessage,
  url: URL,
): Promise<PageResponse> {
  const state = url.searchParams.get('state') ?? '';
  const sent = await findSent(o.records, state);
  // Another browser is rejected: otherwise a link from an attacker would sign the user in as the attacker.
  if (!sent || o.cookies.knownBrowserOf(req) !== sent.browser) return ended();
  const request = await o.requests.find(sent.uid);
  // Removed as late as possible, so that earlier failures can be retried. Of concurrent requests, one succeeds.
  if (!request || (await o.records.take('SignIn', state)) === undefined) return ended();
  const back = { req, url, state, sent, request };
  try {
    const identity = await identify(o, back);
    return identity instanceof SignInRefused
      ? await refused(o, back, identity)
      : await identified(o, back, identity);
  } catch (error) {
    // The one-time record is removed, so a retry cannot succeed after any other failure.
    if (error instanceof RetryableUnavailable) throw error;
    throw new SignInLost('the one-time record is used up', { cause: error });
  }
}

/** Checks the response of the identity provider. */
async function identify(
  o: CallbackContext,
  { url, state, sent }: Return,
): Promise<Identity | SignInRefused> {
  try {
    return await o.upstream.finish(url, { state, ...sent });
  } catch (error) {
    if (error instanceof SignInRefused) return error;
    if (!(error instanceof IdentityProviderUnavailable)) throw error;
    // The code may still be valid. With the record stored again, the user can retry the same URL.
    await storeSent(o.records, state, sent);
    throw new RetryableUnavailable(error.message, { cause: error });
  }
}

async function refused(
  o: CallbackContext,
  { req, sent, request }: Return,
  refusal: SignInRefused,
): Promise<PageResponse> {
  // Without this line, operators would not notice a configuration fault such as a wrong client secret.
  o.logger.warn({ reason: refusal.reason }, 'sign-in failed at the identity provider');
  const prompts = sent.prompts.filter((prompt) => prompt !== 'select_account');
  // `select_account` is optional, and some identity providers do not support it: retry without it.
  // `login` is required, and all identity providers support it.
  if (refusal.isNotUnderstood && prompts.length < sent.prompts.length) {
    return sendUpstream(o, { req, request }, { ...sent, prompts });
  }
  if (refusal.isTooWeak) return o.pages.tooWeak(request);
  return refusal.isDenied ? refuse(o.requests, sent.uid, 'sign-in was refused') : ended();
}

/** Continues with the shops that the account of a confirmed address may use. */
async function identified(
  o: CallbackContext,
  { req, sent, request }: Return,
  identity: Identity,
): Promise<PageResponse> {
  const { email, shopId } = sent;
  if (!proves(identity, email)) {
    o.logger.warn('sign-in refused: another address, or one that is not confirmed');
    return o.pages.otherEmail(request);
  }
  const account = { issuer: identity.issuer, subject: identity.subject };
  const { linked, linkedToOther } = await linkAccount(o.pool, { email, account, from: grantContext() });
  const isWanted = (id: bigint): boolean => shopId === null || String(id) === shopId;
  const shops = (await shopsOfEmail(o.pool, email)).filter((shop) => linked.includes(shop.shopId));
  const [shop, ...more] = shops.filter((one) => isWanted(one.shopId));
  if (!shop && linkedToOther.some(isWanted)) {
    o.logger.warn({ shops: linkedToOther.map(String) }, 'sign-in refused: another account is linked');
    return o.pages.otherAccount(request);
  }
  if (!shop) {
    o.logger.info('sign-in refused: no shop is linked to the address');
    return o.pages.noEmail(request);
  }
  if (more.length === 0) return o.consent.begin(req, request, { shop, email });
  return askShop(o, request, { email, shops });
}

/** Ends the request with `access_denied`. */
export async function refuse(
  requests: AuthorizationRequests,
  uid: string,
  why: string,
): Promise<PageResponse> {
  const resume = await requests.refuse(uid, why);
  return resume === undefined ? ended() : redirect(resume);
}
