import { randomUUID } from 'node:crypto';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { freePorts } from '../../deploy/local/free-ports.ts';
import { newKeyringText, parseKeyring } from '../../services/platform/keyring.ts';
import { createLogger } from '../../services/platform/log.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { Browser } from '../../test/kit/oauth/browser.ts';
import {
  type FakeIdentity,
  SIGN_IN_CLIENT,
  startFakeIdentity,
} from '../../test/kit/oauth/fake-identity.ts';
import { CLIENT_ID, REDIRECT, signInSettings } from '../../test/kit/oauth/sign-in-stack.ts';
import { addMember, type Member } from '../tenancy/members.ts';
import { createSelfNames } from './clients/self-name.ts';
import { createSupportedClients } from './clients/supported-clients.ts';
import { createCookies } from './cookies.ts';
import { SignInLost } from './failure-page.ts';
import { storeGrant } from './issue.ts';
import { createOneTimeRecords } from './one-time-records.ts';
import { createSignIn } from './sign-in.ts';
import { IdentityProviderUnavailable } from './upstream.ts';

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

describe('the callback from the identity provider', () => {
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
