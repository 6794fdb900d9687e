import * as oauth from 'openid-client';
import type { GatewayOptions } from '../../../gateway/open-parts.ts';
import { createPartnerApp, type NewPartnerApp } from '../../../gateway/tenancy/partner-apps.ts';
import { type Received, restClient } from '../gateway/rest-client.ts';
import { Browser, type Shown } from './browser.ts';
import { type Person, type SignInStack, startSignInStack } from './sign-in-stack.ts';

/** The redirect URI of the apps. */
export const APP_REDIRECT = 'https://app.example.com/callback';

/** An app that is registered, as a client of the authorization server. */
export interface TestApp {
  readonly clientId: string;
  readonly secret: string;
  readonly config: oauth.Configuration;
}

/** A started sign-in, and what the app needs to redeem its code. */
export interface Asked {
  readonly url: URL;
  readonly verifier: string;
  readonly state: string;
}

export interface Visit {
  /** The shop to choose, when there are several. */
  readonly shop?: bigint;
  readonly scope?: string;
  readonly browser?: Browser;
  /** Whether to stop at the consent page. */
  readonly stopsAtConsent?: boolean;
  readonly asked?: Asked;
}

/** Gateways with a real identity provider, and apps of partners. */
export interface PartnerBench {
  readonly stack: SignInStack;
  newApp(o?: Partial<NewPartnerApp>): Promise<TestApp>;
  /** Begins an authorization request. @param more other parameters; undefined leaves one out. */
  ask(
    app: TestApp,
    o?: { readonly scope?: string; readonly more?: Record<string, string | undefined> },
  ): Promise<Asked>;
  /** Completes the pages like a person. Stops at the app, or at a page without a next step. */
  visit(app: TestApp, person: Person, o?: Visit): Promise<Shown & { readonly asked: Asked }>;
  /** Redeems the code at the end of a visit. */
  redeem(
    app: TestApp,
    visit: { readonly url: URL; readonly asked: Asked },
  ): Promise<oauth.TokenEndpointResponse>;
  /** Signs in, consents, and redeems the code. */
  tokens(app: TestApp, person: Person, o?: Visit): Promise<oauth.TokenEndpointResponse>;
  /** Lists the webhooks with a token. */
  call(token: string): Promise<Received>;
  stop(): Promise<void>;
}

export async function startPartnerBench(
  options: Partial<GatewayOptions> & { readonly replicas?: 1 | 2 } = {},
): Promise<PartnerBench> {
  const stack = await startSignInStack({
    replicas: 1,
    FAILED_CREDENTIALS_PER_MINUTE: 100_000,
    ...options,
  });
  const { pool } = stack.under.database;
  const send = restClient(stack.under);
  const ask: PartnerBench['ask'] = async (app, { scope = 'developer_tools', more = {} } = {}) => {
    const [verifier, state] = [oauth.randomPKCECodeVerifier(), oauth.randomState()];
    const url = oauth.buildAuthorizationUrl(app.config, {
      redirect_uri: APP_REDIRECT,
      scope,
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    });
    for (const [name, value] of Object.entries(more)) {
      if (value === undefined) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    }
    return { url, verifier, state };
  };
  const visit: PartnerBench['visit'] = async (app, person, o = {}) => {
    const asked = o.asked ?? (await ask(app, o.scope === undefined ? {} : { scope: o.scope }));
    const browser = o.browser ?? new Browser();
    const { email, password } = person;
    let shown = await browser.open(asked.url, APP_REDIRECT);
    for (const [field, values] of [
      ['password', { email, password }],
      ['shop_id', { shop_id: String(o.shop) }],
    ] as const) {
      if (shown.text.includes(`name="${field}"`))
        shown = await browser.submit(shown, values, APP_REDIRECT);
    }
    const isConsent = shown.text.includes('name="consent"') && !o.stopsAtConsent;
    const end = isConsent ? await browser.submit(shown, {}, APP_REDIRECT) : shown;
    return { ...end, asked };
  };
  const redeem: PartnerBench['redeem'] = (app, { url, asked }) =>
    oauth.authorizationCodeGrant(app.config, url, {
      pkceCodeVerifier: asked.verifier,
      expectedState: asked.state,
    });
  return {
    stack,
    ask,
    visit,
    redeem,
    async newApp(o = {}) {
      const { clientId, secret = '' } = await createPartnerApp(pool, {
        name: 'Parcels & Co',
        redirectUris: [APP_REDIRECT],
        scopes: ['developer_tools', 'labels:write'],
        ...o,
      });
      const auth = o.isPublic ? oauth.None() : oauth.ClientSecretBasic(secret);
      return { clientId, secret, config: await clientOf(stack.baseUrl, clientId, auth) };
    },
    async tokens(app, person, o) {
      return redeem(app, await visit(app, person, o));
    },
    call: (token) =>
      send({
        path: '/api/2026-10/webhooks',
        key: null,
        headers: { authorization: `Bearer ${token}` },
      }),
    stop: () => stack.stop(),
  };
}

/** A client of the authorization server, which finds it by its metadata (RFC 8414). */
export function clientOf(
  baseUrl: string,
  clientId: string,
  auth: oauth.ClientAuth,
): Promise<oauth.Configuration> {
  return oauth.discovery(new URL(`${baseUrl}/partners`), clientId, undefined, auth, {
    algorithm: 'oauth2',
    execute: [oauth.allowInsecureRequests],
  });
}

/** The claims of an access token. */
export function claimsIn(token: string): Record<string, unknown> {
  const [, payload = ''] = token.split('.');
  return JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>;
}

/** The parameters of the redirect to the app. @throws when the browser is somewhere else. */
export function redirectedWith({ url, text }: Shown): Record<string, string> {
  if (!url.href.startsWith(APP_REDIRECT)) throw new Error(`not at the app, but at ${url}: ${text}`);
  return Object.fromEntries(url.searchParams);
}
