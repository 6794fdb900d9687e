import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { loadConfig } from '../../../services/platform/process/config.ts';
import { Browser, formOf } from '../../../test/kit/oauth/browser.ts';
import {
  CLIENT_ID,
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { hourlyShape } from '../../auth/hourly-limits.ts';

describe('the log of a sign-in', () => {
  const lines: string[] = [];
  let stack: SignInStack;
  beforeAll(async () => {
    const logDestination = { write: (line: string): void => void lines.push(line) };
    stack = await startSignInStack({ replicas: 1, LOG_LEVEL: 'info', logDestination });
  });
  afterAll(() => stack.stop());

  /** The log events with this message since the last call. */
  function logged(msg: string): Record<string, unknown>[] {
    const all = lines.splice(0).map((line) => JSON.parse(line) as Record<string, unknown>);
    return all.filter((line) => line.msg === msg);
  }

  const refresh = (token: unknown) =>
    stack.token({ grant_type: 'refresh_token', refresh_token: String(token) });
  const REQUEST = { requestId: expect.any(String), clientId: CLIENT_ID };

  test('consent given, token issued, refreshed, and used twice', async () => {
    const person = await stack.newPerson();
    const of = { userId: String(person.userId), shopId: String(person.shopIds[0]) };
    const { body, code, begun } = await stack.tokens(person);
    const given = lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'consent given');
    expect(given).toMatchObject({ ...of, clientId: CLIENT_ID, app: 'claude.ai' });
    const [issued] = logged('token issued');
    expect(issued).toMatchObject({ ...REQUEST, ...of, grantId: expect.any(String) });
    const { body: next } = await refresh(body.refresh_token);
    expect(logged('token refreshed')).toMatchObject([
      { ...REQUEST, ...of, grantId: issued?.grantId },
    ]);
    await stack.under.database.pool.query(
      "update oauth_tickets set consumed_at = consumed_at - interval '31 seconds'",
    );
    await refresh(body.refresh_token);
    const again = lines.map((line) => JSON.parse(line));
    expect(again.find(({ msg }) => msg === 'token refused')).toMatchObject({
      ...REQUEST,
      error: 'invalid_grant',
      detail: expect.any(String),
    });
    expect(logged('grant ended: a code or token was reused')).toMatchObject([
      { grantId: issued?.grantId, why: 'token_reused' },
    ]);
    const secrets = [code, begun.verifier, body.refresh_token, next.refresh_token];
    for (const secret of secrets) expect(JSON.stringify(again)).not.toContain(String(secret));
  });

  test('a token that was revoked', async () => {
    const { body } = await stack.tokens(await stack.newPerson());
    await fetch(`${stack.baseUrl}/oauth/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ token: String(body.refresh_token) }),
    });
    expect(logged('grant ended by token revocation')).toMatchObject([
      { clientId: CLIENT_ID, grantId: expect.any(String), userId: expect.any(String) },
    ]);
  });

  test('consent denied, and a form from another site', async () => {
    const person = await stack.newPerson();
    const page = async (browser: Browser) => {
      const password = await browser.open(stack.begin({ login_hint: person.email }).url, REDIRECT);
      return browser.submit(password, { email: person.email, password: person.password }, REDIRECT);
    };
    const browser = new Browser();
    const shown = await page(browser);
    await browser.submit(shown, { csrf: 'x' }, REDIRECT);
    const rejected = 'consent rejected: wrong csrf field or other browser';
    expect(logged(rejected)).toMatchObject([{ source: '127.0.0.1' }]);
    await browser.submit(shown, { consent: 'deny' }, REDIRECT);
    expect(logged('consent denied')).toMatchObject([{ clientId: CLIENT_ID, app: 'claude.ai' }]);
    const other = new Browser();
    const action = formOf(await other.open(stack.begin().url, REDIRECT)).action;
    await other.send(`${action}/cancel`, { method: 'POST' });
    expect(logged('sign-in cancelled')).toHaveLength(1);
  });

  test('an invalid authorization request', async () => {
    await fetch(stack.begin({ redirect_uri: 'https://evil.example/cb' }).url);
    expect(logged('authorization refused')).toMatchObject([{ detail: 'redirect URI not listed' }]);
    await fetch(stack.begin({ code_challenge: 'short' }).url, { redirect: 'manual' });
    expect(logged('authorization refused')).toMatchObject([
      { ...REQUEST, error: 'invalid_request' },
    ]);
    const { email } = await stack.newPerson();
    await stack.token({ grant_type: 'authorization_code', code: `made up by ${email}` });
    const all = lines.join('\n');
    expect(logged('token refused')).toHaveLength(1);
    expect(all).not.toContain(email);
  });

  test('a person without a shop', async () => {
    const person = await stack.newPerson({ shops: 0 });
    await stack.signIn(person);
    const all = lines.join('\n');
    expect(logged('sign-in refused: no shop is linked to the address')).toMatchObject([
      { source: '127.0.0.1', requestId: expect.any(String) },
    ]);
    expect(all).not.toContain(person.email);
  });
});

describe('the pages of a sign-in', () => {
  const SIZE = 3;
  /** A form above the size limit. If the gateway read it, the status would be 413. */
  const TOO_LARGE = `email=${'a'.repeat(100_000)}`;

  let stack: SignInStack;

  beforeAll(async () => {
    const limits = Object.keys(hourlyShape).map((name) => [name, String(SIZE)]);
    const sizes = loadConfig(hourlyShape, Object.fromEntries(limits));
    stack = await startSignInStack({ replicas: 1, ...sizes });
  });
  afterAll(() => stack.stop());
  beforeEach(() => stack.under.gateway.resetLimits());

  async function request(path: string, method: string, address: string) {
    const body = method === 'POST' ? { body: TOO_LARGE } : {};
    const response = await fetch(`${stack.baseUrl}${path}`, {
      method,
      redirect: 'manual',
      headers: {
        'x-forwarded-for': address,
        'content-type': 'application/x-www-form-urlencoded',
      },
      ...body,
    });
    await response.arrayBuffer();
    return response;
  }

  test.each([
    ['GET', '/oauth/callback?state=made-up'],
    ['GET', '/oauth/authorize/made-up'],
    ['GET', '/oauth/sign-in/made-up'],
    ['POST', '/oauth/sign-in/made-up'],
    ['POST', '/oauth/sign-in/made-up/shop'],
    ['GET', '/oauth/sign-in/made-up/consent'],
    ['POST', '/oauth/sign-in/made-up/allow'],
    ['POST', '/oauth/sign-in/made-up/cancel'],
    ['GET', '/oauth/jwks'],
    ['POST', '/oauth/register'],
    ['POST', '/oauth/token'],
    ['POST', '/oauth/revoke'],
    ['GET', '/partners/authorize'],
    ['GET', '/partners/authorize/made-up'],
    ['GET', '/partners/sign-in/made-up'],
    ['POST', '/partners/sign-in/made-up/shop'],
    ['POST', '/partners/sign-in/made-up/allow'],
    ['GET', '/partners/jwks'],
    ['POST', '/partners/oauth/token'],
    ['POST', '/partners/oauth/revoke'],
    ['GET', '/portal/sign-in'],
    ['GET', '/portal/callback'],
    ['POST', '/portal/invitation'],
    ['POST', '/portal/invitation/accept'],
    ['GET', '/commerce/shopify/install'],
    ['GET', '/commerce/shopify/callback'],
    ['GET', '/r/made-up'],
    ['POST', '/r/made-up/return'],
    ['POST', '/r/made-up/withdraw'],
    ['GET', '/r/made-up/s/made-up'],
  ])('are limited by address before a body is read: %s %s', async (method, path) => {
    for (let count = 0; count < SIZE; count += 1) {
      expect((await request(path, method, '203.0.113.1')).status).not.toBe(429);
    }
    const rejected = await request(path, method, '203.0.113.1');
    expect(rejected.status).toBe(429);
    expect(rejected.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    expect((await request(path, method, '203.0.113.2')).status).not.toBe(429);
  });

  test('have their own rate limits: the resume path is not counted as /oauth/authorize', async () => {
    for (let count = 0; count <= SIZE; count += 1) {
      await request('/oauth/authorize/made-up', 'GET', '203.0.113.1');
    }
    const { pathname, search } = stack.begin().url;
    expect((await request(pathname + search, 'GET', '203.0.113.1')).status).not.toBe(429);
    expect((await request('/oauth/callback', 'GET', '203.0.113.1')).status).not.toBe(429);
  });
});
