import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { exportJWK, generateKeyPair } from 'jose';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import type { Account } from '../../../deploy/local/identity/accounts.ts';
import { signInRedirects } from '../../../deploy/local/identity/sign-in.ts';
import { startIdentity } from '../../../deploy/local/identity/start.ts';
import { hourlyShape } from '../../../gateway/auth/hourly-limits.ts';
import type { GatewayOptions } from '../../../gateway/open-parts.ts';
import { addMember } from '../../../gateway/tenancy/members.ts';
import type { Role } from '../../../gateway/tenancy/permissions.ts';
import { loadConfig } from '../../../services/platform/process/config.ts';
import { newKeyringText, parseKeyring } from '../../../services/platform/security/keyring.ts';
import { startTestGateway, TEST_AUTHOR, type TestGateway } from '../gateway/test-gateway.ts';
import { Browser, type Shown } from './browser.ts';

export const CLIENT_ID = 'rms-mcp';
/** The gateway's client at the identity provider. */
const CLIENT = { clientId: 'gateway', clientSecret: 'secret of the gateway' };
/** A redirect URI of a well-known hosted client. */
export const REDIRECT = 'https://claude.ai/api/mcp/auth_callback';

/** A person with an account at the identity provider. */
export interface Person {
  readonly email: string;
  readonly password: string;
  readonly userId: bigint;
  readonly shopIds: readonly bigint[];
}

/** A started sign-in: the URL to open, and the values that the app needs to redeem its code. */
export interface Begun {
  readonly url: URL;
  readonly verifier: string;
  readonly state: string;
}

interface NewPerson {
  readonly shops?: number;
  readonly role?: Role;
  readonly verified?: boolean;
}

interface PageOptions {
  readonly shop?: bigint;
  readonly browser?: Browser;
  /** Whether to stop at the consent page instead of giving consent. */
  readonly stopsAtConsent?: boolean;
  /** What to allow on the consent page; everything when absent. */
  readonly access?: 'everything' | 'read_only';
}

/** Gateways (by default two replicas) with one database and a real identity provider. */
export interface SignInStack {
  /** The public address, which is the address of the first replica. */
  readonly baseUrl: string;
  readonly issuer: string;
  /** Addresses of the replicas. */
  readonly replicas: readonly string[];
  /** The first replica. */
  readonly under: TestGateway;
  /** Adds a member with this role of that many new shops. */
  newPerson(o?: NewPerson): Promise<Person>;
  begin(changes?: Record<string, string | undefined>): Begun;
  /** Completes all pages like a person. Stops at the app's redirect URI or at a page without a form. */
  signIn(person: Person, o?: PageOptions & { readonly begun?: Begun }): Promise<Shown>;
  /** @param replica the number of the gateway that gets the request. */
  token(fields: Record<string, string>, replica?: number): Promise<TokenResponse>;
  /** Signs in and exchanges the code. */
  tokens(
    person: Person,
    o?: PageOptions & { readonly begun?: Begun },
  ): Promise<TokenResponse & { code: string; begun: Begun }>;
  stopIdentity(): Promise<void>;
  stop(): Promise<void>;
}

export interface TokenResponse {
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
  const accounts: Account[] = [];
  const identity = await startLocalIdentity({ port: identityPort, baseUrl, accounts });
  const shared: Partial<GatewayOptions> = {
    PUBLIC_BASE_URL: baseUrl,
    ...signInSettings(identity.issuer, CLIENT),
    OAUTH_KEYRING: parseKeyring(newKeyringText()),
    ...HIGH_HOURLY_LIMITS,
    ...gatewayOptions,
  };
  const first = await startTestGateway({ PORT: port, ...shared });
  const others =
    replicas === 1 ? [] : [await startTestGateway({ ...shared, DATABASE_URL: first.database.url })];
  const addresses = [first, ...others].map(({ gateway }) => `http://127.0.0.1:${gateway.port}`);

  const begin: SignInStack['begin'] = (changes) => beginSignIn(addresses[0] ?? '', changes);
  const signIn: SignInStack['signIn'] = (person, o = {}) =>
    completePages(person, { ...o, url: (o.begun ?? begin()).url });
  const token: SignInStack['token'] = (fields, replica = 0) =>
    requestToken(`${addresses[replica]}/oauth/token`, fields);
  return {
    baseUrl,
    issuer: identity.issuer,
    replicas: addresses,
    under: first,
    begin,
    signIn,
    token,
    newPerson: (o) => addPerson(first, accounts, o),
    async tokens(person, o = {}) {
      const begun = o.begun ?? begin();
      const code = (await signIn(person, { ...o, begun })).url.searchParams.get('code') ?? '';
      const response = await token({
        grant_type: 'authorization_code',
        code,
        redirect_uri: REDIRECT,
        code_verifier: begun.verifier,
      });
      return { ...response, code, begun };
    },
    stopIdentity: identity.stop,
    async stop() {
      for (const other of others) await other.stop();
      await first.stop();
      await identity.stop();
    },
  };
}

async function startLocalIdentity(o: {
  readonly port: number;
  readonly baseUrl: string;
  readonly accounts: Account[];
}) {
  const issuer = `http://127.0.0.1:${o.port}`;
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const identity = await startIdentity({
    port: o.port,
    issuer,
    signIn: { ...CLIENT, redirectUris: signInRedirects(o.baseUrl) },
    accounts: o.accounts,
    signingKey: { ...(await exportJWK(privateKey)), kty: 'RSA', kid: 'k1', alg: 'RS256' },
    cookieSecret: 'secret of the cookies',
  });
  let isRunning = true;
  return {
    issuer,
    async stop() {
      if (isRunning) await identity.stop();
      isRunning = false;
    },
  };
}

function beginSignIn(gatewayUrl: string, changes: Record<string, string | undefined> = {}): Begun {
  const verifier = randomBytes(32).toString('base64url');
  const state = randomUUID();
  const url = new URL(`${gatewayUrl}/oauth/authorize`);
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
}

async function completePages(
  { email, password, shopIds }: Person,
  o: PageOptions & { readonly url: URL },
): Promise<Shown> {
  const until = o.url.searchParams.get('redirect_uri') ?? REDIRECT;
  const browser = o.browser ?? new Browser();
  let shown = await browser.open(o.url, until);
  for (const [field, value] of [
    ['email', { email }],
    ['shop_id', { shop_id: String(o.shop ?? shopIds[0]) }],
    ['password', { email, password }],
  ] as const) {
    if (shown.text.includes(`name="${field}"`)) shown = await browser.submit(shown, value, until);
  }
  const isConsent = shown.text.includes('name="consent"');
  const choice: Record<string, string> = o.access ? { access: o.access } : {};
  return isConsent && !o.stopsAtConsent ? browser.submit(shown, choice, until) : shown;
}

async function requestToken(url: string, fields: Record<string, string>): Promise<TokenResponse> {
  const response = await fetch(url, {
    method: 'POST',
    body: new URLSearchParams({ client_id: CLIENT_ID, ...fields }),
  });
  const body = (await response.json()) as Record<string, unknown>;
  return { status: response.status, headers: response.headers, body };
}

async function addPerson(
  { database, newShop }: TestGateway,
  accounts: Account[],
  { shops = 1, role = 'owner', verified = true }: NewPerson = {},
): Promise<Person> {
  const email = `${randomUUID()}@example.com`;
  const password = randomUUID();
  const name = 'Ada';
  const shopIds: bigint[] = [];
  let userId = 0n;
  for (let count = 0; count < shops; count += 1) {
    const shopId = await newShop();
    const member = { shopId, email, role, name, by: TEST_AUTHOR };
    ({ userId } = await addMember(database.pool, member));
    shopIds.push(shopId);
  }
  accounts.push({ id: randomUUID(), email, password, name, emailVerified: verified });
  return { email, password, userId, shopIds };
}
