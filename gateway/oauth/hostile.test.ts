import { request } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Browser } from '../../test/kit/oauth/browser.ts';
import {
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';
import { confirmsEmail } from './upstream.ts';

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
