import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePorts } from '../../deploy/local/free-ports.ts';
import { newKeyringText, parseKeyring } from '../../services/platform/security/keyring.ts';
import { startTestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { Browser, formOf } from '../../test/kit/oauth/browser.ts';
import { SIGN_IN_CLIENT } from '../../test/kit/oauth/fake-identity.ts';
import {
  CLIENT_ID,
  REDIRECT,
  type SignInStack,
  signInSettings,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';
import { confirmsEmail } from './sign-in/upstream.ts';

describe('hostile requests of a sign-in', () => {
  const lines: string[] = [];
  let stack: SignInStack;
  beforeAll(async () => {
    const logDestination = { write: (line: string): void => void lines.push(line) };
    stack = await startSignInStack({ replicas: 1, LOG_LEVEL: 'info', logDestination });
  });
  afterAll(() => stack.stop());

  test.each(['a\0b@example.com', 'a@exa\0mple.com', 'a\u0007@example.com'])(
    'a text with a control character is not an e-mail address: %j',
    async (address) => {
      const browser = new Browser();
      const hinted = await browser.send(stack.begin({ login_hint: address }).url);
      expect([hinted.status, hinted.text.includes('name="email"')]).toEqual([200, true]);
      const form = await browser.send(stack.begin().url);
      const sent = await browser.submit(form, { email: address }, REDIRECT);
      expect([sent.status, sent.text.includes('role="alert"')]).toEqual([400, true]);
    },
  );

  test('requests with invented sign-in ids store no rows', async () => {
    const count = async () => {
      const { rows } = await stack.under.database.pool.query(
        `select (select count(*) from rate_limits)::int + (select count(*) from oauth_tickets)::int as n`,
      );
      return rows[0].n;
    };
    const before = await count();
    for (const step of ['', '/shop', '/consent', '/allow', '/cancel']) {
      for (const id of ['one', 'two', 'three']) {
        const method = step === '/consent' ? 'GET' : 'POST';
        const uid = `${id}${step.length}`;
        const url = `${stack.baseUrl}/oauth/sign-in/${uid}${step}`;
        const response = await fetch(url, { method, headers: { cookie: `rms_sign_in=${uid}` } });
        expect(response.status).toBe(400);
      }
    }
    expect(await count()).toBe(before);
  });

  test('an invalid response of the identity provider is logged with error names only', async () => {
    const browser = new Browser();
    const person = await stack.newPerson();
    const callback = `${stack.baseUrl}/oauth/callback`;
    const page = await browser.open(stack.begin({ login_hint: person.email }).url, REDIRECT);
    const { email, password } = person;
    const { url } = await browser.submit(page, { email, password }, callback);
    const wrong = new URL(url);
    wrong.searchParams.set('code', 'made-up-code');
    expect((await browser.send(wrong)).status).toBe(400);
    const line = lines.find((one) => one.includes('sign-in failed at the identity provider')) ?? '';
    expect(JSON.parse(line)).toMatchObject({ reason: expect.stringContaining('invalid_grant') });
    expect(line).not.toContain('made-up-code');
  });

  test.each(['/oauth/authorize', '/oauth/jwks', '/.well-known/oauth-authorization-server'])(
    'HEAD %s gets the same response as GET, without the body',
    async (path) => {
      const url = `${stack.baseUrl}${path}${path.endsWith('authorize') ? stack.begin().url.search : ''}`;
      const [head, get] = [await fetch(url, { method: 'HEAD' }), await fetch(url)];
      expect([head.status, get.status]).toEqual([200, 200]);
      expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'));
      expect(await head.text()).toBe('');
    },
  );

  test('a path that cannot be decoded gets 404', async () => {
    for (const path of ['/oauth/authorize/%ZZ', '/oauth/sign-in/%ZZ']) {
      expect((await fetch(`${stack.baseUrl}${path}`)).status).toBe(404);
    }
  });

  test.each(['/oauth/register', '/oauth/token'])(
    'POST %s sends 100 Continue to a client that waits for it',
    async (path) => {
      const headers = { expect: '100-continue', 'content-length': 2 };
      const req = request(`${stack.baseUrl}${path}`, { method: 'POST', headers });
      const first = new Promise<string>((resolve, reject) => {
        req.once('continue', () => resolve('continue'));
        req.once('response', () => resolve('response'));
        req.once('error', reject);
      });
      req.flushHeaders();
      expect(await first).toBe('continue');
      req.once('error', () => {}).destroy();
    },
  );

  test.each([
    ['kate@example.com', true, true],
    ['Kate@Example.com', true, true],
    ['kate@example.com', false, false],
    ['\u212aate@example.com', true, false],
    ['kate@example.com.evil.example', true, false],
    [undefined, true, false],
  ])(
    'email %j with email_verified %j confirms kate@example.com: %j',
    (email, emailVerified, expected) => {
      expect(confirmsEmail({ email, emailVerified }, 'kate@example.com')).toBe(expected);
    },
  );
});

test('the log contains no code, token, state, verifier, cookie or e-mail address, and no URL contains an access token', async () => {
  const lines: string[] = [];
  const logDestination = { write: (line: string): void => void lines.push(line) };
  const stack = await startSignInStack({ replicas: 1, LOG_LEVEL: 'trace', logDestination });
  const person = await stack.newPerson();
  const browser = new Browser();
  const begun = stack.begin();
  const callback = `${stack.baseUrl}/oauth/callback`;
  const form = await browser.open(begun.url, REDIRECT);
  const password = await browser.submit(form, { email: person.email }, REDIRECT);
  const account = { email: person.email, password: person.password };
  const { url } = await browser.submit(password, account, callback);
  const consent = await browser.open(url, REDIRECT);
  const shown = await browser.submit(consent, {}, REDIRECT);
  const code = shown.url.searchParams.get('code') ?? '';
  const fields = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: REDIRECT,
    code_verifier: begun.verifier,
  };
  const { body } = await stack.token(fields);
  const { body: next } = await stack.token({
    grant_type: 'refresh_token',
    refresh_token: String(body.refresh_token),
  });
  // Failures are logged as well.
  await stack.token({ ...fields, code_verifier: 'x'.repeat(43) });
  await browser.send(url);
  await stack.stopIdentity();
  await stack.stop();

  const log = lines.join('\n');
  expect(log.match(/"msg":"request"/g)?.length).toBeGreaterThan(5);
  for (const operation of ['oauthAuthorize', 'oauthSignIn', 'oauthCallback', 'oauthToken']) {
    expect(log).toContain(`"operation":"${operation}"`);
  }
  const secrets = [
    code,
    body.access_token,
    body.refresh_token,
    next.access_token,
    next.refresh_token,
    begun.state,
    begun.verifier,
    person.email,
    url.searchParams.get('code'),
    url.searchParams.get('state'),
    formOf(consent).fields.csrf,
    ...[...browser.cookies.values()].map(({ value }) => value),
  ];
  for (const secret of secrets) {
    expect(String(secret).length).toBeGreaterThan(10);
    expect(log).not.toContain(String(secret));
  }
  expect(shown.url.href).not.toContain(String(body.access_token));
});

describe('while the identity provider is unavailable', () => {
  test('a page says so at the start of a sign-in and at the callback', async () => {
    const OAUTH_KEYRING = parseKeyring(newKeyringText());
    const stack = await startSignInStack({ replicas: 1, OAUTH_KEYRING });
    const person = await stack.newPerson();
    const browser = new Browser();
    const form = await browser.open(stack.begin({ login_hint: person.email }).url, REDIRECT);
    const callback = `${stack.baseUrl}/oauth/callback`;
    const { email, password } = person;
    const back = await browser.submit(form, { email, password }, callback);

    const fresh = await startTestGateway({
      DATABASE_URL: stack.under.database.url,
      PUBLIC_BASE_URL: stack.baseUrl,
      ...signInSettings(stack.issuer, SIGN_IN_CLIENT),
      OAUTH_KEYRING,
    });
    await stack.stopIdentity();
    const { pathname, search } = stack.begin().url;
    const responses = [
      await browser.send(back.url),
      await new Browser().send(`${fresh.gateway.baseUrl}${pathname}${search}`),
    ];
    await fresh.stop();
    await stack.stop();
    for (const { status, headers, text } of responses) {
      expect([status, headers.get('retry-after')]).toEqual([503, '5']);
      expect(text).toContain('The page where you sign in does not answer');
    }
  });
});

test.each([
  {},
  { authorization_endpoint: 'javascript:alert(1)', token_endpoint: 'x', jwks_uri: 5 },
])(
  'an identity provider with unusable metadata is unavailable until its metadata changes: %j',
  async (metadata) => {
    const identity = createServer((_req, res) => {
      res
        .setHeader('Content-Type', 'application/json')
        .end(JSON.stringify({ issuer, ...metadata }));
    });
    const [port = 0] = await freePorts(1);
    const issuer = `http://127.0.0.1:${port}`;
    await once(identity.listen(port, '127.0.0.1'), 'listening');
    const gateway = await startTestGateway({
      PUBLIC_BASE_URL: 'http://127.0.0.1:1',
      ...signInSettings(issuer, SIGN_IN_CLIENT),
      OAUTH_KEYRING: parseKeyring(newKeyringText()),
    });
    const query = new URLSearchParams({
      response_type: 'code',
      client_id: CLIENT_ID,
      redirect_uri: REDIRECT,
      code_challenge: 'x'.repeat(43),
      code_challenge_method: 'S256',
    });
    const begin = `http://127.0.0.1:${gateway.gateway.port}/oauth/authorize?${query}`;
    const responses = [
      await new Browser().send(begin),
      await new Browser().send(`${begin}&login_hint=somebody@example.com`),
    ];
    await gateway.stop();
    identity.close();
    for (const { status, text } of responses) {
      expect([status, text.includes('does not answer')]).toEqual([503, true]);
    }
  },
);

describe('while the database is unavailable', () => {
  test('every sign-in fails with 503', async () => {
    const withoutDatabase = await startTestGateway({
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
      PUBLIC_BASE_URL: 'http://127.0.0.1:1',
      ...signInSettings('http://127.0.0.1:1', SIGN_IN_CLIENT),
      OAUTH_KEYRING: parseKeyring(newKeyringText()),
    });
    const base = `http://127.0.0.1:${withoutDatabase.gateway.port}`;
    const responses = await Promise.all([
      fetch(`${base}/oauth/token`, { method: 'POST', body: new URLSearchParams({ code: 'x' }) }),
      fetch(`${base}/oauth/register`, { method: 'POST' }),
      fetch(`${base}/oauth/authorize?redirect_uri=${REDIRECT}`),
      fetch(`${base}/oauth/authorize/x`),
      fetch(`${base}/oauth/callback?state=x&code=y`),
      fetch(`${base}/oauth/sign-in/x`, { method: 'POST', headers: { cookie: 'rms_sign_in=x' } }),
      fetch(`${base}/oauth/jwks`),
      fetch(`${base}/.well-known/oauth-authorization-server`),
    ]);
    await withoutDatabase.stop();
    for (const { status, headers, url } of responses) {
      expect([url, status, headers.get('retry-after')]).toEqual([url, 503, expect.any(String)]);
    }
    expect(await responses[0]?.json()).toMatchObject({ error: 'temporarily_unavailable' });
  });
});

test('without an identity provider the service serves metadata, and every sign-in fails', async () => {
  const withoutSignIn = await startTestGateway({ PUBLIC_BASE_URL: 'http://127.0.0.1:1' });
  const base = `http://127.0.0.1:${withoutSignIn.gateway.port}`;
  const [metadata, ...others] = await Promise.all([
    fetch(`${base}/.well-known/oauth-authorization-server`),
    fetch(`${base}/oauth/authorize`),
    fetch(`${base}/oauth/token`, { method: 'POST' }),
    fetch(`${base}/oauth/register`, { method: 'POST' }),
    fetch(`${base}/oauth/jwks`),
    fetch(`${base}/oauth/callback`),
  ]);
  await withoutSignIn.stop();
  expect(metadata.status).toBe(200);
  expect(others.map(({ status }) => status)).toEqual([503, 503, 503, 503, 503]);
});

test('requests for unknown metadata paths are rate limited', async () => {
  const withoutSignIn = await startTestGateway({ PUBLIC_BASE_URL: 'http://127.0.0.1:1' });
  const request = () => fetch(`http://127.0.0.1:${withoutSignIn.gateway.port}/.well-known/nothing`);
  const statuses: number[] = [];
  for (let at = 0; at < 101; at += 1) statuses.push((await request()).status);
  await withoutSignIn.stop();
  expect(new Set(statuses.slice(0, 100))).toEqual(new Set([404]));
  expect(statuses[100]).toBe(429);
});
