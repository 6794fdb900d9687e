import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import pg from 'pg';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import { newKeyringText, parseKeyring } from '../../../services/platform/security/keyring.ts';
import { createLogger } from '../../../services/platform/telemetry/log.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../../test/kit/gateway/test-gateway.ts';
import { Browser, formOf, type Shown } from '../../../test/kit/oauth/browser.ts';
import {
  type FakeIdentity,
  SIGN_IN_CLIENT,
  startFakeIdentity,
} from '../../../test/kit/oauth/fake-identity.ts';
import {
  type Begun,
  CLIENT_ID,
  type Person,
  REDIRECT,
  type SignInStack,
  signInSettings,
  startSignInStack,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { ResponseTooLarge } from '../../auth/bounded-fetch.ts';
import { addMember, type Member } from '../../tenancy/members.ts';
import { createSelfNames } from '../clients/self-name.ts';
import { createSupportedClients } from '../clients/supported-clients.ts';
import { storeGrant } from '../tokens/issue.ts';
import { createCookies } from './cookies.ts';
import { SignInLost } from './failure-page.ts';
import { createOneTimeRecords } from './one-time-records.ts';
import { createSignIn } from './sign-in.ts';
import { createUpstream, IdentityProviderUnavailable, type Upstream } from './upstream.ts';

describe('the callback from the identity provider', () => {
  let stack: SignInStack;
  beforeAll(async () => {
    stack = await startSignInStack({ replicas: 1 });
  });
  afterAll(() => stack.stop());

  /** Opens the identity provider's password page. */
  async function toPassword(
    person: { email: string },
    begun: Begun,
    browser: Browser,
  ): Promise<Shown> {
    const form = await browser.open(begun.url, REDIRECT);
    const shown = await browser.submit(form, { email: person.email }, REDIRECT);
    expect(shown.text).toContain('name="password"');
    return shown;
  }

  /** Signs in at the identity provider, and returns the URL that it redirects to. */
  async function callbackOf(person: Person, browser: Browser): Promise<string> {
    const callback = `${stack.baseUrl}/oauth/callback`;
    const password = await toPassword(person, stack.begin(), browser);
    const { email, password: word } = person;
    return (await browser.submit(password, { email, password: word }, callback)).url.href;
  }

  test('works once per sign-in', async () => {
    const browser = new Browser();
    const callback = await callbackOf(await stack.newPerson(), browser);
    expect((await browser.send(callback)).status).toBe(303);
    const again = await browser.send(callback);
    expect([again.status, again.headers.get('location')]).toEqual([400, null]);
  });

  test("works only in the browser that started the sign-in, so that a link with another user's code fails", async () => {
    const attacker = new Browser();
    const callback = await callbackOf(await stack.newPerson(), attacker);
    const victim = new Browser();
    await toPassword(await stack.newPerson(), stack.begin(), victim);
    for (const browser of [new Browser(), victim]) {
      const { status, headers } = await browser.send(callback);
      expect([status, headers.get('location')]).toEqual([400, null]);
    }
  });

  test.each<[string, (url: URL) => void]>([
    ['without state', (url) => url.searchParams.delete('state')],
    ['with another state', (url) => url.searchParams.set('state', 'x'.repeat(43))],
    ['with another code', (url) => url.searchParams.set('code', 'x'.repeat(43))],
    ['without a code', (url) => url.searchParams.delete('code')],
    ['from another issuer (mix-up)', (url) => url.searchParams.set('iss', 'https://evil.example')],
    ['without its issuer', (url) => url.searchParams.delete('iss')],
    ['with two states', (url) => url.searchParams.append('state', 'x')],
    ['with two codes', (url) => url.searchParams.append('code', 'x')],
  ])('%s is rejected', async (_, change) => {
    const browser = new Browser();
    const url = new URL(await callbackOf(await stack.newPerson(), browser));
    change(url);
    const { status, headers } = await browser.send(url);
    expect([status, headers.get('location')]).toEqual([400, null]);
  });

  test('belongs to its own sign-in when a browser has two', async () => {
    const browser = new Browser();
    const [one, other] = [await stack.newPerson(), await stack.newPerson()];
    const [first, second] = [stack.begin(), stack.begin()];
    const form = await toPassword(one, first, browser);
    await toPassword(other, second, browser);
    const account = { email: one.email, password: one.password };
    const consent = await browser.submit(form, account, REDIRECT);
    const shown = await browser.submit(consent, {}, REDIRECT);
    expect(shown.url.searchParams.get('state')).toBe(first.state);
    const { body } = await stack.token({
      grant_type: 'authorization_code',
      code: shown.url.searchParams.get('code') ?? '',
      redirect_uri: REDIRECT,
      code_verifier: first.verifier,
    });
    expect(decodeJwt(String(body.access_token)).sub).toBe(String(one.userId));
  });

  /** Begins a sign-in, and returns the page after this error of the identity provider. */
  async function afterError(error: string) {
    const browser = new Browser();
    const begun = stack.begin();
    const shown = await toPassword(await stack.newPerson(), begun, browser);
    expect(shown.url.origin).toBe(stack.issuer);
    const upstream = await browserLocation(browser, begun);
    const state = new URL(upstream).searchParams.get('state') ?? '';
    const failed = new URL(`${stack.baseUrl}/oauth/callback`);
    failed.search = String(new URLSearchParams({ error, state, iss: stack.issuer }));
    return { begun, response: await browser.open(failed, REDIRECT) };
  }

  test('reports an access_denied of the identity provider to the app', async () => {
    const { begun, response } = await afterError('access_denied');
    expect(Object.fromEntries(response.url.searchParams)).toMatchObject({
      error: 'access_denied',
      state: begun.state,
    });
  });

  test.each(['temporarily_unavailable', 'server_error'])(
    'says to connect again after %s of the identity provider',
    async (error) => {
      const { response } = await afterError(error);
      expect(response.status).toBe(503);
      expect(response.text).toContain('connect again');
    },
  );

  /** Sends the form again, and returns the URL of the redirect. */
  async function browserLocation(browser: Browser, begun: Begun): Promise<string> {
    const form = await browser.send(begun.url);
    const action = /action="([^"]+)"/.exec(form.text)?.[1] ?? '';
    const body = new URLSearchParams({ email: (await stack.newPerson()).email });
    const sent = await browser.send(`${stack.baseUrl}${action}`, { method: 'POST', body });
    return sent.headers.get('location') ?? '';
  }

  test('the URL that issues the code works once, and only in the same browser', async () => {
    const person = await stack.newPerson();
    const browser = new Browser();
    const callback = await callbackOf(person, browser);
    const { action, fields } = formOf(await browser.open(callback, REDIRECT));
    const allowed = await browser.send(action, {
      method: 'POST',
      body: new URLSearchParams(fields),
    });
    const resume = new URL(allowed.headers.get('location') ?? '', stack.baseUrl);
    expect(resume.pathname).toMatch(/^\/oauth\/authorize\/[\w-]+$/);
    expect((await new Browser().send(resume)).status).toBe(400);
    expect((await browser.send(resume)).headers.get('location')).toContain(`${REDIRECT}?code=`);
    expect((await browser.send(resume)).status).toBe(400);
  });
});

describe('the callback from the identity provider', () => {
  let identity: FakeIdentity;
  let gateway: TestGateway;
  let baseUrl: string;
  let migrator: pg.Client;
  beforeAll(async () => {
    const [port = 0, identityPort = 0] = await freePorts(2);
    baseUrl = `http://127.0.0.1:${port}`;
    identity = await startFakeIdentity(identityPort);
    gateway = await startTestGateway({
      PORT: port,
      PUBLIC_BASE_URL: baseUrl,
      ...signInSettings(identity.issuer, SIGN_IN_CLIENT),
      OAUTH_KEYRING: parseKeyring(newKeyringText()),
    });
    migrator = new pg.Client({ connectionString: gateway.database.migratorUrl });
    await migrator.connect();
    // PostgreSQL raises this error while it is starting.
    await migrator.query(
      `create function gateway.fail() returns trigger language plpgsql
     as $$ begin raise exception 'starting up' using errcode = '57P03'; end $$`,
    );
  });
  afterAll(async () => {
    await migrator.end();
    await gateway.stop();
    identity.stop();
  });

  async function addShop(email: string): Promise<Member> {
    const shopId = await gateway.newShop();
    return addMember(gateway.database.pool, { shopId, email, role: 'owner', by: TEST_AUTHOR });
  }

  /** A browser that has signed in at the identity provider, and its callback URL. */
  async function atProvider({ prompt = '', isConsented = false } = {}): Promise<{
    browser: Browser;
    callback: string;
  }> {
    const email = `${randomUUID()}@example.com`;
    const member = await addShop(email);
    if (isConsented) {
      const grant = { ...member, clientId: CLIENT_ID, app: new URL(REDIRECT).host, isConsented };
      await storeGrant(gateway.database.pool, randomUUID(), grant);
    }
    const query = new URLSearchParams({
      response_type: 'code',
      client_id: CLIENT_ID,
      redirect_uri: REDIRECT,
      code_challenge: 'x'.repeat(43),
      code_challenge_method: 'S256',
      login_hint: email,
      prompt,
    });
    const browser = new Browser();
    const { headers } = await browser.send(`${baseUrl}/oauth/authorize?${query}`);
    return { browser, callback: identity.callbackOf(new URL(headers.get('location') ?? '')) };
  }

  test('can be retried until the identity provider is available', async () => {
    const { browser, callback } = await atProvider();
    identity.isUnavailable = true;
    const failed = [await browser.send(callback), await browser.send(callback)];
    identity.isUnavailable = false;
    for (const { status, text } of failed) {
      expect([status, text.includes('Try again in a moment')]).toEqual([503, true]);
    }
    const consent = await browser.open(callback, REDIRECT);
    const shown = await browser.submit(consent, {}, REDIRECT);
    expect(shown.url.searchParams.has('code')).toBe(true);
    expect((await browser.send(callback)).status).toBe(400);
  });

  test('succeeds for one of many concurrent requests', async () => {
    const { browser, callback } = await atProvider();
    const many = await Promise.all(Array.from({ length: 8 }, () => browser.send(callback)));
    const statuses = many.map(({ status }) => status).toSorted();
    expect(statuses).toEqual([303, 400, 400, 400, 400, 400, 400, 400]);
  });

  const GRANT = 'gateway.oauth_grants for each row';
  const record = (kind: string) => `gateway.oauth_tickets for each row when (new.kind = '${kind}')`;

  interface Failure {
    failing: string;
    error?: string;
    prompt?: string;
    isUnavailable?: boolean;
    isConsented?: boolean;
  }
  test.each<[string, Failure]>([
    ['the grant', { failing: GRANT, isConsented: true }],
    ['the pending consent', { failing: record('SignedIn') }],
    ['the record for a retry', { failing: record('SignIn'), isUnavailable: true }],
    ['the denial', { failing: record('Interaction'), error: 'access_denied' }],
    [
      'the second redirect with fewer prompts',
      { failing: record('SignIn'), error: 'invalid_request', prompt: 'select_account' },
    ],
  ])('leads back to the app when the database cannot store %s', async (_, o) => {
    const { browser, callback } = await atProvider(o);
    const url = new URL(callback);
    if (o.error !== undefined) {
      url.searchParams.delete('code');
      url.searchParams.set('error', o.error);
    }
    identity.isUnavailable = o.isUnavailable ?? false;
    await migrator.query(
      `create trigger failing before insert on ${o.failing} execute function gateway.fail()`,
    );
    const { status, headers, text } = await browser.send(url);
    identity.isUnavailable = false;
    await migrator.query(`drop trigger failing on ${o.failing.split(' ')[0]}`);
    expect([status, headers.get('retry-after')]).toEqual([503, '5']);
    expect(text).toContain('Go back to your app and connect again in a moment');
    expect(text).not.toContain('Try again');
    expect((await browser.send(url)).status).toBe(400);
  });

  test('cannot be retried after the next page has failed', async () => {
    const email = `${randomUUID()}@example.com`;
    await addShop(email);
    const { pool } = gateway.database;
    const req = new IncomingMessage(new Socket());
    req.headers.cookie = `rms_browser=${'b'.repeat(43)}`;
    const state = randomUUID();
    const expected = { state, nonce: 'n', codeVerifier: 'v' };
    const request = {
      uid: randomUUID(),
      clientId: CLIENT_ID,
      redirectUri: REDIRECT,
      prompts: [],
      scopes: [],
      isDecided: false,
    };
    const signIn = createSignIn({
      pool,
      records: createOneTimeRecords(pool),
      selfNames: createSelfNames(createOneTimeRecords(pool), () => '127.0.0.1'),
      clients: createSupportedClients(CLIENT_ID, []),
      cookies: createCookies(baseUrl, 60),
      upstream: {
        origin: () => Promise.reject(new IdentityProviderUnavailable()),
        begin: async () => ({ url: identity.issuer, expected }),
        finish: async () => ({ issuer: 'i', subject: 's', email, emailVerified: true }),
        signedOut: () => Promise.reject(new IdentityProviderUnavailable()),
      },
      requests: {
        find: async () => request,
        storeEmail: async () => {},
        grant: async () => undefined,
        deny: async () => undefined,
      },
      grantDays: 90,
      formOrigins: [],
      logger: createLogger({ service: 'test', level: 'silent' }),
    });
    expect((await signIn.submitEmail(req, request.uid, email)).status).toBe(303);
    // With a second shop the next page is the shop form, which needs the origin of the identity provider.
    await addShop(email);
    const callback = new URL(`${baseUrl}/oauth/callback?state=${state}`);
    await expect(signIn.handleCallback(req, callback)).rejects.toThrow(SignInLost);
    expect((await signIn.handleCallback(req, callback)).status).toBe(400);
  });
});

describe('an endless response of the identity provider counts as unavailable, and is not read to its end', () => {
  /** Maximum number of bytes that the server can send to a reader that stops at 1 MiB, with socket buffers. */
  const SENT_MAX = 64 * 1024 * 1024;

  let server: Server;
  let issuer: string;
  let isDiscoverable = true;
  let sent = 0;

  beforeAll(async () => {
    server = createServer((req, res) => {
      const isMetadata = req.url?.startsWith('/.well-known/') ?? false;
      res.setHeader('Content-Type', 'application/json');
      if (isMetadata && isDiscoverable) res.end(metadata());
      else sendEndlessly(res);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    issuer = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    server.close();
  });

  function metadata(): string {
    return JSON.stringify({
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
    });
  }

  function sendEndlessly(res: ServerResponse): void {
    sent = 0;
    const piece = ' '.repeat(64 * 1024);
    const more = (): void => {
      while (!res.destroyed && sent < 2 * SENT_MAX) {
        sent += piece.length;
        if (!res.write(piece)) return void res.once('drain', more);
      }
    };
    more();
  }

  function causesOf(error: unknown): unknown[] {
    return error instanceof Error ? [error, ...causesOf(error.cause)] : [];
  }

  const upstream = (): Upstream =>
    createUpstream({ issuer, clientId: 'x', clientSecret: 'y', redirectUri: `${issuer}/back` });

  const expectUnavailable = async (work: Promise<unknown>): Promise<void> => {
    const causes = causesOf(await work.catch((error: unknown) => error));
    expect(causes[0]).toBeInstanceOf(IdentityProviderUnavailable);
    expect(causes).toContainEqual(expect.any(ResponseTooLarge));
    expect(sent).toBeLessThan(SENT_MAX);
  };

  test('metadata', async () => {
    isDiscoverable = false;
    await expectUnavailable(upstream().origin());
  });

  test('tokens', async () => {
    isDiscoverable = true;
    const client = upstream();
    const { expected } = await client.begin('a@example.com');
    const callback = new URL(`${issuer}/back?code=c&state=${expected.state}`);
    await expectUnavailable(client.finish(callback, expected));
  });
});
