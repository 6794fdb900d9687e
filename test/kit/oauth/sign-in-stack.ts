import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { exportJWK, generateKeyPair } from 'jose';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import type { Account } from '../../../deploy/local/identity/accounts.ts';
import { startIdentity } from '../../../deploy/local/identity/start.ts';
import { hourlyShape } from '../../../gateway/auth/hourly-limits.ts';
import type { GatewayOptions } from '../../../gateway/start.ts';
import { addMember } from '../../../gateway/tenancy/members.ts';
import { loadConfig } from '../../../services/platform/config.ts';
import { newKeyringText, parseKeyring } from '../../../services/platform/keyring.ts';
import { startTestGateway, TEST_AUTHOR, type TestGateway } from '../gateway/test-gateway.ts';
import { Browser, type Shown } from './browser.ts';

export const CLIENT_ID = 'rms-mcp';
/** A redirect URI of a well-known hosted client. */
export const REDIRECT = 'https://claude.ai/api/mcp/auth_callback';

/** A person with an account at the identity provider. */
export interface Person {
  readonly email: string;
  readonly password: string;
  readonly userId: bigint;
  readonly shopIds: readonly bigint[];
}

/** The values with which an app starts a sign-in, and which it needs at the end. */
export interface Begun {
  readonly url: URL;
  readonly verifier: string;
  readonly state: string;
}

/** Gateways (by default two replicas) with one database and a real identity provider. */
export interface SignInStack {
  /** The public address, which is the address of the first replica. */
  readonly baseUrl: string;
  readonly issuer: string;
  /** Addresses of the replicas. */
  readonly replicas: readonly string[];
  readonly under: TestGateway;
  /** Adds a member of the given number of shops, with the role in each. */
  newPerson(o?: {
    shops?: number;
    role?: 'owner' | 'analyst';
    verified?: boolean;
  }): Promise<Person>;
  begin(changes?: Record<string, string | undefined>): Begun;
  /** Goes through all pages as a person does; ends at the app's redirect URI or at a page without a form. */
  signIn(
    person: Person,
    o?: {
      begun?: Begun;
      shop?: bigint;
      browser?: Browser;
      /** Stops at the consent page, if there is one. */
      isConsentLeft?: boolean;
    },
  ): Promise<Shown>;
  /** @param replica the gateway to send the request to. */
  token(fields: Record<string, string>, replica?: number): Promise<TokenAnswer>;
  /** Signs in and exchanges the code. */
  tokens(person: Person): Promise<TokenAnswer & { readonly code: string; readonly begun: Begun }>;
  stopIdentity(): Promise<void>;
  stop(): Promise<void>;
}

export interface TokenAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

/** Hourly limits that tests do not reach. */
export const HIGH_HOURLY_LIMITS = loadConfig(
  hourlyShape,
  Object.fromEntries(Object.keys(hourlyShape).map((name) => [name, '100000'])),
);

/** The settings for this identity provider. */
export function signInSettings(
  issuer: string,
  client: { readonly clientId: string; readonly clientSecret: string },
) {
  return {
    SIGN_IN_ISSUER: issuer,
    SIGN_IN_CLIENT_ID: client.clientId,
    SIGN_IN_CLIENT_SECRET: client.clientSecret,
  };
}

export async function startSignInStack(
  options: Partial<GatewayOptions> & { readonly replicas?: 1 | 2 } = {},
): Promise<SignInStack> {
  const { replicas = 2, ...gatewayOptions } = options;
  const [port = 0, identityPort = 0] = await freePorts(2);
  const baseUrl = gatewayOptions.PUBLIC_BASE_URL ?? `http://127.0.0.1:${port}`;
  const issuer = `http://127.0.0.1:${identityPort}`;
  const accounts: Account[] = [];
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const client = { clientId: 'gateway', clientSecret: 'secret of the gateway' };
  const identity = await startIdentity({
    port: identityPort,
    issuer,
    resource: baseUrl,
    partner: { clientId: 'app', clientSecret: 'secret', redirectUri: 'http://127.0.0.1:7777/cb' },
    signIn: { ...client, redirectUri: `${baseUrl}/oauth/callback` },
    accounts,
    signingKey: { ...(await exportJWK(privateKey)), kty: 'RSA', kid: 'k1', alg: 'RS256' },
    cookieSecret: 'secret of the cookies',
  });
  const shared: Partial<GatewayOptions> = {
    PUBLIC_BASE_URL: baseUrl,
    ...signInSettings(issuer, client),
    OAUTH_KEYRING: parseKeyring(newKeyringText()),
    ...HIGH_HOURLY_LIMITS,
    ...gatewayOptions,
  };
  const under = await startTestGateway({ PORT: port, ...shared });
  const others =
    replicas === 1 ? [] : [await startTestGateway({ ...shared, DATABASE_URL: under.database.url })];
  const addresses = [under, ...others].map(({ gateway }) => `http://127.0.0.1:${gateway.port}`);

  const begin = (changes: Record<string, string | undefined> = {}): Begun => {
    const verifier = randomBytes(32).toString('base64url');
    const state = randomUUID();
    const url = new URL(`${addresses[0]}/oauth/authorize`);
    const parameters = {
      response_type: 'code',
      client_id: CLIENT_ID,
      redirect_uri: REDIRECT,
      state,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
      ...changes,
    };
    for (const [name, value] of Object.entries(parameters)) {
      if (value !== undefined) url.searchParams.set(name, value);
    }
    return { url, verifier, state };
  };

  const signIn: SignInStack['signIn'] = async (person, o = {}) => {
    const { url } = o.begun ?? begin();
    const until = url.searchParams.get('redirect_uri') ?? REDIRECT;
    const browser = o.browser ?? new Browser();
    const { email, password } = person;
    let shown = await browser.open(url, until);
    for (const [field, value] of [
      ['email', { email }],
      ['shop_id', { shop_id: String(o.shop ?? person.shopIds[0]) }],
      ['password', { email, password }],
    ] as const) {
      if (shown.text.includes(`name="${field}"`)) shown = await browser.submit(shown, value, until);
    }
    const isAsked = shown.text.includes('name="consent"') && !o.isConsentLeft;
    return isAsked ? browser.submit(shown, {}, until) : shown;
  };

  const token: SignInStack['token'] = async (fields, replica = 0) => {
    const response = await fetch(`${addresses[replica]}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: CLIENT_ID, ...fields }),
    });
    const body = (await response.json()) as Record<string, unknown>;
    return { status: response.status, headers: response.headers, body };
  };

  let identityIsUp = true;
  const stopIdentity = async () => {
    if (identityIsUp) await identity.stop();
    identityIsUp = false;
  };
  return {
    baseUrl,
    issuer,
    replicas: addresses,
    under,
    begin,
    signIn,
    token,
    async newPerson({ shops = 1, role = 'owner', verified = true } = {}) {
      const email = `${randomUUID()}@example.com`;
      const password = randomUUID();
      const shopIds: bigint[] = [];
      let userId = 0n;
      for (let count = 0; count < shops; count += 1) {
        const shopId = await under.newShop();
        ({ userId } = await addMember(under.database.pool, {
          shopId,
          email,
          role,
          name: 'Ada',
          by: TEST_AUTHOR,
        }));
        shopIds.push(shopId);
      }
      accounts.push({
        id: randomUUID(),
        email,
        password,
        name: 'Ada',
        emailVerified: verified,
        shopIds: [],
      });
      return { email, password, userId, shopIds };
    },
    async tokens(person) {
      const begun = begin();
      const code = (await signIn(person, { begun })).url.searchParams.get('code') ?? '';
      const answer = await token({
        grant_type: 'authorization_code',
        code,
        redirect_uri: REDIRECT,
        code_verifier: begun.verifier,
      });
      return { ...answer, code, begun };
    },
    stopIdentity,
    async stop() {
      for (const other of others) await other.stop();
      await under.stop();
      await stopIdentity();
    },
  };
}
