import { exportJWK, generateKeyPair } from 'jose';
import * as oauth from 'openid-client';
import { freePorts } from '../../free-ports.ts';
import type { ShopOfAccount } from '../directory.ts';
import { startIdentity } from '../start.ts';
import { browse, type Page } from './browser.ts';

export const REDIRECT = 'http://127.0.0.1:7777/callback';
export const RESOURCE = 'http://127.0.0.1:8080';
const PARTNER = {
  name: 'Parcels & Co',
  clientId: 'app',
  clientSecret: 'secret of the app',
  redirectUri: REDIRECT,
};
export const SIGN_IN_REDIRECT = `${RESOURCE}/oauth/callback`;
const SIGN_IN = {
  clientId: 'sign-in',
  clientSecret: 'secret of the sign-in',
  redirectUris: [SIGN_IN_REDIRECT],
};
const person = (name: string) => ({
  id: `user-${name}`,
  name,
  email: `${name}@example.com`,
  password: `password of ${name}`,
});

/** A shop for which a person may allow an app. */
export const shop = (shopId: bigint): ShopOfAccount => ({
  shopId,
  name: `Shop ${shopId}`,
  mayConnect: true,
  whoMay: [],
});

/** A shop for which a person may not allow an app. */
export const notAllowedIn = (shopId: bigint): ShopOfAccount => ({
  ...shop(shopId),
  mayConnect: false,
  whoMay: ['Ada (Owner)'],
});

/** What a test of the identity provider does as a browser. */
export interface Install {
  readonly password?: string;
  readonly shop?: string;
  readonly scope?: string;
  /** The button of the consent page. */
  readonly consent?: string;
  /** More parameters of the request. */
  readonly more?: Record<string, string>;
  readonly cookies?: Map<string, string>;
  /** Stops at the page with this text. */
  readonly stopAt?: string;
}

export interface IdentityBench {
  readonly url: string;
  /** The shops of each person by name. A test may change them. */
  readonly shops: Map<string, readonly ShopOfAccount[]>;
  /** A partner's app. */
  readonly app: oauth.Configuration;
  /** The sign-in of this service. */
  readonly signIn: oauth.Configuration;
  /** Completes the pages like a browser. Stops at the redirect to the app or at a page without a form. */
  install(name: string, o?: Install): Promise<Page>;
  /** Gets the tokens for the code in the URL of a page. */
  redeem(page: Page): Promise<oauth.TokenEndpointResponse>;
  /** The shops of each person as at the start. */
  reset(): void;
  stop(): Promise<void>;
}

/** Starts an identity provider with an app, and these people: owner, both, analyst, nobody, unproved. */
export async function startIdentityBench(): Promise<IdentityBench> {
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const shops = new Map<string, readonly ShopOfAccount[]>();
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const names = ['owner', 'both', 'analyst', 'nobody'];
  const identity = await startIdentity({
    port,
    issuer: url,
    resource: RESOURCE,
    partner: PARTNER,
    signIn: SIGN_IN,
    accounts: [...names.map(person), { ...person('unproved'), emailVerified: false }],
    directory: async ({ name }) => shops.get(name) ?? [],
    signingKey: { ...(await exportJWK(privateKey)), kty: 'RSA', kid: 'k1', alg: 'RS256' },
    cookieSecret: 'secret of the cookies',
  });
  const clientOf = (client: { clientId: string; clientSecret: string }, auth: oauth.ClientAuth) =>
    oauth.discovery(new URL(url), client.clientId, client.clientSecret, auth, {
      execute: [oauth.allowInsecureRequests],
    });
  const app = await clientOf(PARTNER, oauth.ClientSecretPost(PARTNER.clientSecret));
  const signIn = await clientOf(SIGN_IN, oauth.ClientSecretBasic(SIGN_IN.clientSecret));
  const reset = () => {
    shops.set('owner', [shop(1n)]);
    shops.set('both', [shop(1n), shop(2n), notAllowedIn(3n)]);
    shops.set('analyst', [notAllowedIn(1n)]);
  };
  reset();
  return {
    url,
    shops,
    app,
    signIn,
    reset,
    redeem: (page) => oauth.authorizationCodeGrant(app, page.url, { expectedState: 'st' }),
    install: (name, o = {}) => install(app, name, o),
    stop: () => identity.stop(),
  };
}

function install(app: oauth.Configuration, name: string, o: Install): Promise<Page> {
  const fields = {
    email: `${name}@example.com`,
    password: o.password ?? `password of ${name}`,
    ...(o.shop && { shop_id: o.shop }),
    ...(o.consent && { consent: o.consent }),
  };
  const start = oauth.buildAuthorizationUrl(app, {
    redirect_uri: REDIRECT,
    scope: o.scope ?? 'developer_tools',
    state: 'st',
    ...o.more,
  });
  return browse(start, {
    fields,
    until: REDIRECT,
    ...(o.cookies && { cookies: o.cookies }),
    ...(o.stopAt !== undefined && { stopAt: o.stopAt }),
  });
}

/** The claims of an access token. */
export function claimsIn(token: string): unknown {
  const [, payload = ''] = token.split('.');
  return JSON.parse(Buffer.from(payload, 'base64url').toString());
}

/** The parameters of the redirect to the app. @throws when the browser is somewhere else. */
export function redirectedWith({ url }: Page): Record<string, string> {
  if (!url.href.startsWith(REDIRECT)) throw new Error(`not at the app, but at ${url}`);
  return Object.fromEntries(url.searchParams);
}
