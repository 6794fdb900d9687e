import type { IncomingMessage } from 'node:http';
import type pg from 'pg';
import { z } from 'zod';
import { parseEmail } from '../tenancy/users.ts';
import { type Account, type ShopOfUser, shopsOfEmail } from './account.ts';
import { displayHost, isOnOwnMachine } from './clients/redirect-uri.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import type { Cookies } from './cookies.ts';
import { type Answer, ended, page, redirect } from './pages/answer.ts';
import { type Asking, consentPage, emailPage, messagePage, shopPage } from './pages/pages.ts';
import { SIGN_IN_TTL_S, signInPath } from './provider.ts';
import type { AuthorizationRequest, AuthorizationRequests } from './requests.ts';
import type { Tickets } from './tickets.ts';
import { SignInRefused, type Upstream } from './upstream.ts';

/** For whom a person is asked before a code is given; `loopback` is whatever runs on their own machine. */
export type Consent = 'always' | 'loopback' | 'never';

export interface SignInOptions {
  readonly issuer: string;
  readonly pool: pg.Pool;
  readonly tickets: Tickets;
  readonly clients: SupportedClients;
  readonly cookies: Cookies;
  readonly upstream: Upstream;
  readonly requests: AuthorizationRequests;
  readonly consent: Consent;
}

/** What is kept while somebody is away at the identity provider, under the state they come back with. */
const signInSchema = z.object({
  uid: z.string(),
  /** The address that was asked for. */
  email: z.string(),
  /** The shop that was chosen; null while there was nothing to choose. */
  shopId: z.string().nullable(),
  /** The browser that was sent there. */
  browser: z.string(),
  nonce: z.string(),
  codeVerifier: z.string(),
});

/** Who signed in, and waits for the question whether to allow it. */
const signedInSchema = z.object({
  userId: z.string(),
  shopId: z.string(),
  shopName: z.string(),
  email: z.string(),
});

/**
 * The way from an authorization request to its code: whose address, which shop, the identity provider,
 * and whether it is allowed. Every step answers what a browser is to get.
 */
export interface SignIn {
  /** A request has just come in. */
  begin(req: IncomingMessage, request: AuthorizationRequest): Promise<Answer>;
  /** The first form once more. */
  askEmail(uid: string): Promise<Answer>;
  /** An address was sent. */
  giveEmail(req: IncomingMessage, uid: string, email: string): Promise<Answer>;
  /** A shop was sent, for the address given before. */
  chooseShop(req: IncomingMessage, uid: string, shopId: string): Promise<Answer>;
  /** Somebody came back from the identity provider. @param url the address that they came to. */
  comeBack(req: IncomingMessage, url: URL): Promise<Answer>;
  /** The question whether to allow it. */
  askConsent(uid: string): Promise<Answer>;
  allow(uid: string): Promise<Answer>;
  cancel(uid: string): Promise<Answer>;
}

export function createSignIn(o: SignInOptions): SignIn {
  const asking = ({ clientId, redirectUri }: AuthorizationRequest): Asking => ({
    name: o.clients.nameOf(clientId, redirectUri),
    host: displayHost(redirectUri),
  });

  /** Where a form of this request may end up: at the identity provider, and at the app. */
  const targets = async (request: AuthorizationRequest): Promise<string[]> => [
    ...new Set([await o.upstream.origin(), formTarget(request.redirectUri)]),
  ];

  const showEmail = async (
    request: AuthorizationRequest,
    filled: { email?: string; problem?: string } = {},
  ): Promise<Answer> =>
    page(emailPage({ action: signInPath(request.uid), asking: asking(request), ...filled }), {
      status: filled.problem === undefined ? 200 : 400,
      formTargets: await targets(request),
    });

  const showShops = async (
    request: AuthorizationRequest,
    shops: readonly ShopOfUser[],
    problem?: string,
  ): Promise<Answer> =>
    page(
      shopPage({
        action: `${signInPath(request.uid)}/shop`,
        asking: asking(request),
        shops,
        problem,
      }),
      { status: problem === undefined ? 200 : 400, formTargets: await targets(request) },
    );

  /** The same for everybody, known or not: same work, same answer. */
  const sendUpstream = async (
    req: IncomingMessage,
    request: AuthorizationRequest,
    { email, shopId }: { email: string; shopId: string | null },
  ): Promise<Answer> => {
    const browser = o.cookies.browserOf(req);
    const { url, expectation } = await o.upstream.begin(email);
    const { state, nonce, codeVerifier } = expectation;
    const content: z.infer<typeof signInSchema> = {
      uid: request.uid,
      email,
      shopId,
      browser,
      nonce,
      codeVerifier,
    };
    await o.tickets.put('SignIn', state, { content, ttlS: SIGN_IN_TTL_S });
    return redirect(url, [o.cookies.keepBrowser(browser)]);
  };

  /** With several shops one is chosen first; with one or none the answer is the same. */
  const resolve = async (
    req: IncomingMessage,
    request: AuthorizationRequest,
    email: string,
  ): Promise<Answer> => {
    const shops = await shopsOfEmail(o.pool, email);
    if (shops.length < 2) return sendUpstream(req, request, { email, shopId: null });
    await o.requests.remember(request.uid, { email });
    return showShops(request, shops);
  };

  const noEmail = (request: AuthorizationRequest): Answer =>
    page(
      messagePage({
        title: 'No email was found',
        text: 'No shop is linked to the address that you signed in with. Ask the owner of your shop to add you, or connect again with another address.',
        cancel: `${signInPath(request.uid)}/cancel`,
      }),
      { status: 403, formTargets: [formTarget(request.redirectUri)] },
    );

  const otherEmail = (request: AuthorizationRequest): Answer =>
    page(
      messagePage({
        title: 'That was another address',
        text: 'You signed in with another address than the one you gave, or with one that is not confirmed. Connect again and use the same address in both places.',
        cancel: `${signInPath(request.uid)}/cancel`,
      }),
      { status: 403, formTargets: [formTarget(request.redirectUri)] },
    );

  const grant = async (uid: string, account: Account): Promise<Answer> => {
    const resume = await o.requests.grant(uid, account);
    return resume === undefined ? ended() : redirect(resume);
  };

  const refuse = async (uid: string, why: string): Promise<Answer> => {
    const resume = await o.requests.refuse(uid, why);
    return resume === undefined ? ended() : redirect(resume);
  };

  const proceed = async (
    request: AuthorizationRequest,
    shop: ShopOfUser,
    email: string,
  ): Promise<Answer> => {
    if (!needsConsent(o.consent, request.redirectUri)) return grant(request.uid, shop);
    const content: z.infer<typeof signedInSchema> = {
      userId: String(shop.userId),
      shopId: String(shop.shopId),
      shopName: shop.name,
      email,
    };
    await o.tickets.put('SignedIn', request.uid, { content, ttlS: SIGN_IN_TTL_S });
    return redirect(`${signInPath(request.uid)}/consent`);
  };

  return {
    async begin(req, request) {
      const email = parseEmail(request.loginHint ?? '');
      return email === undefined ? showEmail(request) : resolve(req, request, email);
    },

    async askEmail(uid) {
      const request = await o.requests.find(uid);
      return request ? showEmail(request) : ended();
    },

    async giveEmail(req, uid, text) {
      const request = await o.requests.find(uid);
      if (!request) return ended();
      const email = parseEmail(text);
      if (email !== undefined) return resolve(req, request, email);
      const problem = 'Enter an e-mail address such as name@example.com.';
      return showEmail(request, { email: text.slice(0, 320), problem });
    },

    async chooseShop(req, uid, shopId) {
      const request = await o.requests.find(uid);
      if (request?.email === undefined) return ended();
      const { email } = request;
      const shops = await shopsOfEmail(o.pool, email);
      if (!shops.some((shop) => String(shop.shopId) === shopId)) {
        return showShops(request, shops, 'Choose one of your shops.');
      }
      return sendUpstream(req, request, { email, shopId });
    },

    async comeBack(req, url) {
      const state = url.searchParams.get('state') ?? '';
      const stored = signInSchema.safeParse(await o.tickets.take('SignIn', state));
      if (!stored.success) return ended();
      const { uid, email, shopId, browser, nonce, codeVerifier } = stored.data;
      // Whoever was sent a link by somebody else would be signed in as them.
      if (o.cookies.knownBrowserOf(req) !== browser) return ended();
      const request = await o.requests.find(uid);
      if (!request) return ended();
      try {
        const identity = await o.upstream.finish(url, { state, nonce, codeVerifier });
        const isSame = identity.emailVerified && parseEmail(identity.email ?? '') === email;
        if (!isSame) return otherEmail(request);
      } catch (error) {
        if (error instanceof SignInRefused && error.isDenied)
          return refuse(uid, 'sign-in was refused');
        if (error instanceof SignInRefused) return ended();
        throw error;
      }
      const shops = await shopsOfEmail(o.pool, email);
      const chosen =
        shopId === null ? shops : shops.filter((shop) => String(shop.shopId) === shopId);
      const [shop, ...more] = chosen;
      if (!shop) return noEmail(request);
      if (more.length === 0) return proceed(request, shop, email);
      await o.requests.remember(uid, { email });
      return showShops(request, shops);
    },

    async askConsent(uid) {
      const request = await o.requests.find(uid);
      const waiting = signedInSchema.safeParse((await o.tickets.find('SignedIn', uid))?.content);
      if (!request || !waiting.success) return ended();
      const { shopName, email } = waiting.data;
      const body = consentPage({
        allow: `${signInPath(uid)}/allow`,
        cancel: `${signInPath(uid)}/cancel`,
        asking: asking(request),
        isOnOwnMachine: isOnOwnMachine(request.redirectUri),
        shopName,
        email,
      });
      return page(body, { formTargets: [formTarget(request.redirectUri)] });
    },

    async allow(uid) {
      const waiting = signedInSchema.safeParse(await o.tickets.take('SignedIn', uid));
      if (!waiting.success) return ended();
      const { userId, shopId } = waiting.data;
      return grant(uid, { userId: BigInt(userId), shopId: BigInt(shopId) });
    },

    cancel: (uid) => refuse(uid, 'the user said no'),
  };
}

function needsConsent(consent: Consent, redirectUri: string): boolean {
  return consent === 'always' || (consent === 'loopback' && isOnOwnMachine(redirectUri));
}

/** As a source of a content security policy. */
function formTarget(redirectUri: string): string {
  const { protocol, origin } = new URL(redirectUri);
  return protocol === 'https:' || protocol === 'http:' ? origin : protocol;
}
