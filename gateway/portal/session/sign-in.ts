import type { IncomingMessage } from 'node:http';
import type pg from 'pg';
import { z } from 'zod';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import { type PageResponse, redirect } from '../../oauth/pages/response.ts';
import { SIGN_IN_TTL_S } from '../../oauth/provider.ts';
import { type ShopOfUser, shopsOfEmail } from '../../oauth/sign-in/account.ts';
import type { Cookies } from '../../oauth/sign-in/cookies.ts';
import type { OneTimeRecords } from '../../oauth/sign-in/one-time-records.ts';
import {
  confirmsEmail,
  type Identity,
  IdentityProviderUnavailable,
  SignInFailed,
  type Upstream,
} from '../../oauth/sign-in/upstream.ts';
import { linkAccount } from '../../tenancy/sign-in-accounts.ts';
import { parseEmail } from '../../tenancy/users.ts';
import type { InvitationSteps } from './invitation.ts';
import { INVITATION_SIGN_IN_AGAIN } from './invitation-pages.ts';
import { returnPathOf } from './return-path.ts';
import type { SessionCookie } from './session-cookie.ts';
import type { From, SessionStarter } from './session-starter.ts';
import type { PortalSessions } from './sessions.ts';
import { signInMessage } from './sign-in-messages.ts';

/** Stored while the user is at the identity provider, under the `state` parameter of the redirect. */
const pendingSignIn = z.object({
  returnTo: z.string(),
  /** The browser that was redirected. */
  browser: z.string(),
  nonce: z.string(),
  codeVerifier: z.string(),
  authenticatedSince: z.number().optional(),
  /** The id of the invitation that the browser has opened. */
  invitation: z.string().optional(),
});
type PendingSignIn = z.infer<typeof pendingSignIn>;

export interface PortalSignInParts {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly records: OneTimeRecords;
  readonly cookies: Cookies;
  readonly sessionCookie: SessionCookie;
  readonly sessions: PortalSessions;
  readonly upstream: Upstream;
  readonly starter: SessionStarter;
  readonly invitations: InvitationSteps;
}

/** The two steps of a sign-in to the portal. Each returns the response for the browser. */
export interface PortalSignIn {
  /**
   * Redirects to the identity provider, which asks for the password again after a session of this browser ended.
   *
   * @param query `return_to`: a path of the portal; `prompt=login`: ask again.
   * @param o.invitation the id of an opened invitation: then the sign-in starts no session, and ends at the invitation.
   */
  begin(
    req: IncomingMessage,
    query: URLSearchParams,
    o?: { readonly invitation?: string },
  ): Promise<PageResponse>;
  /**
   * Handles the redirect from the identity provider, and starts a session with a new id.
   *
   * @param url the requested URL, with code and state.
   */
  finish(req: IncomingMessage, url: URL, from: From): Promise<PageResponse>;
  /**
   * Ends the sessions of an account that signed out at the identity provider. Idempotent.
   *
   * @throws SignInFailed for an invalid token; IdentityProviderUnavailable.
   */
  signedOut(logoutToken: string): Promise<void>;
}

export function createPortalSignIn(o: PortalSignInParts): PortalSignIn {
  return {
    async signedOut(logoutToken) {
      await o.sessions.endAccount(await o.upstream.signedOut(logoutToken));
    },

    async begin(req, query, { invitation } = {}) {
      const browser = o.cookies.browserOf(req);
      const mustAsk =
        query.get('prompt') === 'login' || isUnasked(req) || (await hadSession(o, req));
      const prompts = mustAsk ? ['login'] : [];
      const { url, expected } = await o.upstream.begin(undefined, { prompts });
      const { state, ...rest } = expected;
      const returnTo = returnPathOf(query.get('return_to'));
      await store(o, state, { returnTo, browser, ...rest, ...(invitation && { invitation }) });
      return redirect(url, [o.cookies.browserCookie(browser)]);
    },

    async finish(req, url, from) {
      const state = url.searchParams.get('state') ?? '';
      const found = await o.records.find('PortalSignIn', state);
      const pending = pendingSignIn.safeParse(found?.content).data;
      // Reject another browser: otherwise an attacker's link would sign the user in as the attacker.
      if (!pending || o.cookies.knownBrowserOf(req) !== pending.browser) {
        o.logger.warn('sign-in to the portal refused: not begun in this browser, or over');
        return signInMessage('ended');
      }
      // Of many concurrent requests, one gets the record.
      if ((await o.records.take('PortalSignIn', state)) === undefined)
        return signInMessage('ended');
      const identity = await identify(o, { url, state, pending });
      if (!(identity instanceof SignInFailed)) {
        const { invitation } = pending;
        if (invitation !== undefined) return o.invitations.signedIn(invitation, identity);
        return signIn(o, { req, identity, pending, from });
      }
      o.logger.warn(
        { reason: identity.reason },
        'sign-in to the portal failed at the identity provider',
      );
      const again = pending.invitation === undefined ? undefined : INVITATION_SIGN_IN_AGAIN;
      if (identity.isTooWeak) return signInMessage('tooWeak', again);
      if (identity.isProviderError) return signInMessage('providerError', again);
      return signInMessage(identity.isDenied ? 'denied' : 'ended', again);
    },
  };
}

/**
 * Whether another site sent the browser here and the user clicked nothing. The identity provider would sign the user in
 * without a question, and no session may start without an act of its user.
 */
function isUnasked({ headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'];
  const isElsewhere = site === 'cross-site' || site === 'same-site';
  return isElsewhere && headers['sec-fetch-user'] !== '?1';
}

/**
 * Whether the session of this browser ended, here or by a sign-out on another device. The identity provider would sign
 * the user in again without a question.
 */
async function hadSession(
  { sessionCookie, sessions }: PortalSignInParts,
  req: IncomingMessage,
): Promise<boolean> {
  if (!sessionCookie.isPresent(req)) return false;
  const id = sessionCookie.idOf(req);
  return id === undefined || (await sessions.find(id)) === undefined;
}

/** Checks the response of the identity provider. */
async function identify(
  o: PortalSignInParts,
  { url, state, pending }: { url: URL; state: string; pending: PendingSignIn },
): Promise<Identity | SignInFailed> {
  try {
    return await o.upstream.finish(url, { state, ...pending });
  } catch (error) {
    if (error instanceof SignInFailed) return error;
    // The code may still be valid, so store the record again: then the user can retry the same URL.
    if (error instanceof IdentityProviderUnavailable) await store(o, state, pending);
    throw error;
  }
}

/** Links the account, and starts a session in one of its shops. */
async function signIn(
  o: PortalSignInParts,
  {
    req,
    identity,
    pending,
    from,
  }: {
    readonly req: IncomingMessage;
    readonly identity: Identity;
    readonly pending: PendingSignIn;
    readonly from: From;
  },
): Promise<PageResponse> {
  const email = parseEmail(identity.email ?? '');
  if (email === undefined || !confirmsEmail(identity, email)) {
    o.logger.warn('sign-in to the portal refused: no confirmed address');
    return signInMessage('notConfirmed');
  }
  const account = { issuer: identity.issuer, subject: identity.subject };
  const { linked, linkedToOther } = await linkAccount(o.pool, { email, account, from });
  const shops = (await shopsOfEmail(o.pool, email)).filter(({ shopId }) => linked.includes(shopId));
  const [first] = shops;
  if (!first) {
    o.logger.info('sign-in to the portal refused: the address has no shop');
    return signInMessage(linkedToOther.length > 0 ? 'otherAccount' : 'noShop');
  }
  const { userId, shopId } = await lastUsedShop(o.sessions, shops, first);
  const cookie = await o.starter.start(req, { userId, shopId, account, from });
  return redirect(pending.returnTo, [cookie]);
}

/** The shop of the user's session that was used last; the first one by name when there is none. */
async function lastUsedShop(
  sessions: PortalSessions,
  shops: readonly ShopOfUser[],
  first: ShopOfUser,
): Promise<ShopOfUser> {
  if (shops.length === 1) return first;
  const [last] = await sessions.list(first.userId);
  return shops.find(({ shopId }) => shopId === last?.shopId) ?? first;
}

function store(o: PortalSignInParts, state: string, content: PendingSignIn): Promise<void> {
  return o.records.put('PortalSignIn', state, { content, ttlS: SIGN_IN_TTL_S });
}
