import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Browser, formOf } from '../../test/kit/oauth/browser.ts';
import {
  CLIENT_ID,
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';

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
  expect(logged(rejected)).toHaveLength(1);
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
  expect(logged('authorization refused')).toMatchObject([{ ...REQUEST, error: 'invalid_request' }]);
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
  expect(logged('sign-in refused: no shop is linked to the address')).toHaveLength(1);
  expect(all).not.toContain(person.email);
});
