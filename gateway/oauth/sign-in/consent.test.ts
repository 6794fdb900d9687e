import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { TEST_AUTHOR } from '../../../test/kit/gateway/test-gateway.ts';
import { Browser, formOf, type Shown } from '../../../test/kit/oauth/browser.ts';
import {
  type Begun,
  type Person,
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { listGrants, revokeGrant } from '../../tenancy/grants.ts';
import { addMember, removeMember } from '../../tenancy/members.ts';
import { purgeOneTimeRecords } from './one-time-records.ts';

const LOOPBACK = 'http://127.0.0.1:51234/callback';
const CLAUDE = 'https://claude.ai/oauth/mcp-oauth-client-metadata';

const lines: string[] = [];
let stack: SignInStack;
beforeAll(async () => {
  const logDestination = { write: (line: string): void => void lines.push(line) };
  stack = await startSignInStack({ replicas: 1, LOG_LEVEL: 'info', logDestination });
});
afterAll(() => stack.stop());

/** Signs a person in, up to the consent page, or to the redirect URI if there is no consent page. */
async function signedIn(person: Person, o: { begun?: Begun; browser?: Browser } = {}) {
  const begun = o.begun ?? stack.begin();
  const browser = o.browser ?? new Browser();
  const until = begun.url.searchParams.get('redirect_uri') ?? REDIRECT;
  const form = await browser.open(begun.url, until);
  const password = await browser.submit(form, { email: person.email }, until);
  const account = { email: person.email, password: person.password };
  const shown = await browser.submit(password, account, until);
  const allow = () => browser.submit(shown, {}, until);
  return { begun, browser, shown, isConsentPage: shown.text.includes('name="consent"'), allow };
}

const codeOf = ({ url }: Shown): string => url.searchParams.get('code') ?? '';

async function expectTokens(shown: Shown, begun: Begun, changes: Record<string, string> = {}) {
  const { status, body } = await stack.token({
    grant_type: 'authorization_code',
    code: codeOf(shown),
    redirect_uri: begun.url.searchParams.get('redirect_uri') ?? '',
    code_verifier: begun.verifier,
    ...changes,
  });
  expect(status).toBe(200);
  return body;
}

const grantsOf = async (person: Person) =>
  (await listGrants(stack.under.database.pool)).filter(({ email }) => email === person.email);

describe('consent', () => {
  test('is requested before the first code, also for a hosted app and a user who is signed in at the provider', async () => {
    const person = await stack.newPerson({ role: 'analyst' });
    const first = await signedIn(person);
    expect([first.shown.status, first.isConsentPage]).toEqual([200, true]);
    // A second authorization request, in a browser that is signed in at the identity provider.
    const again = stack.begin({ login_hint: person.email });
    const shown = await first.browser.open(again.url, REDIRECT);
    expect([shown.url.origin, codeOf(shown)]).toEqual([stack.baseUrl, '']);
    expect(await grantsOf(person)).toEqual([]);
    await expectTokens(await first.allow(), first.begun);
  });

  test('names the host, the role, its rights, the duration, and who can end it', async () => {
    const person = await stack.newPerson({ role: 'analyst' });
    const { shown } = await signedIn(person);
    for (const part of [
      'claude.ai',
      person.email,
      'Analyst',
      'see returns, their items and their customers',
      '90 days at most',
      'every owner and admin',
      `no. ${person.shopIds[0]}`,
    ]) {
      expect(shown.text).toContain(part);
    }
    expect(shown.text).not.toContain('process returns');
    expect(shown.text).not.toContain('your own computer');
    expect(shown.url.search).toBe('');
  });

  test('is stored for one person, shop, client and host', async () => {
    const person = await stack.newPerson({ shops: 1 });
    const first = await signedIn(person);
    await expectTokens(await first.allow(), first.begun);
    const second = await signedIn(person);
    expect(second.isConsentPage).toBe(false);
    await expectTokens(second.shown, second.begun);

    const others: [string, Begun][] = [
      ['another client', stack.begin({ client_id: CLAUDE })],
      ['another host', stack.begin({ redirect_uri: 'https://claude.com/api/mcp/auth_callback' })],
      ['prompt=consent', stack.begin({ prompt: 'consent' })],
    ];
    for (const [why, begun] of others) {
      expect([why, (await signedIn(person, { begun })).isConsentPage]).toEqual([why, true]);
    }
    expect((await signedIn(await stack.newPerson())).isConsentPage).toBe(true);
  });

  test('is requested for each shop', async () => {
    const person = await stack.newPerson({ shops: 2 });
    const [one = 0n, two = 0n] = person.shopIds;
    await stack.signIn(person, { shop: one });
    const browser = new Browser();
    const shops = await browser.open(stack.begin({ login_hint: person.email }).url, REDIRECT);
    const password = await browser.submit(shops, { shop_id: String(two) }, REDIRECT);
    const account = { email: person.email, password: person.password };
    const shown = await browser.submit(password, account, REDIRECT);
    expect(shown.text).toContain(`no. ${two}`);
  });

  test.each([LOOPBACK, 'cursor://anysphere.cursor-mcp/oauth/callback'])(
    'is requested every time for an app on a local machine: %s',
    async (redirect_uri) => {
      const person = await stack.newPerson();
      for (const _ of [1, 2]) {
        const begun = stack.begin({ redirect_uri });
        const { shown, isConsentPage, allow } = await signedIn(person, { begun });
        expect([isConsentPage, shown.text.includes('your own computer')]).toEqual([true, true]);
        await expectTokens(await allow(), begun);
      }
    },
  );

  test('is requested again after any grant of the app was revoked', async () => {
    const person = await stack.newPerson();
    const { pool } = stack.under.database;
    await stack.tokens(person);
    await stack.tokens(person);
    const [first, second] = await grantsOf(person);
    await revokeGrant(pool, { id: second?.id ?? '', by: TEST_AUTHOR });
    expect((await grantsOf(person)).map(({ id }) => id)).toEqual([first?.id]);
    expect((await signedIn(person)).isConsentPage).toBe(true);
  });

  test('is requested again after its grant has expired, even if a newer grant is active', async () => {
    const person = await stack.newPerson();
    const { pool } = stack.under.database;
    await stack.tokens(person);
    await stack.tokens(person);
    const [first] = await grantsOf(person);
    await pool.query('update oauth_grants set expires_at = now() where id = $1', [first?.id]);
    expect((await signedIn(person)).isConsentPage).toBe(true);
    await purgeOneTimeRecords(pool);
    expect((await signedIn(person)).isConsentPage).toBe(true);
  });

  test('ends with the membership', async () => {
    const person = await stack.newPerson();
    const { pool } = stack.under.database;
    await stack.tokens(person);
    const { email } = person;
    const [shopId = 0n] = person.shopIds;
    const owner = `owner-${email}`;
    await addMember(pool, { shopId, email: owner, role: 'owner', by: TEST_AUTHOR });
    await removeMember(pool, { shopId, email, by: TEST_AUTHOR });
    await addMember(pool, { shopId, email, role: 'owner', by: TEST_AUTHOR });
    expect((await signedIn(person)).isConsentPage).toBe(true);
  });

  test('is requested if the only grant has no consent', async () => {
    const person = await stack.newPerson();
    await stack.tokens(person);
    await stack.under.database.pool.query(
      'update oauth_grants set consented_at = null where user_id = $1',
      [person.userId],
    );
    expect((await signedIn(person)).isConsentPage).toBe(true);
  });

  test('can be denied: the app gets access_denied and no code', async () => {
    for (const via of ['its own form', 'a button of the other form']) {
      const { begun, browser, shown } = await signedIn(await stack.newPerson());
      const page = { ...shown, text: shown.text.replace(/^.*?<\/form>/s, '') };
      const denied = await (via === 'its own form'
        ? browser.submit(page, {}, REDIRECT)
        : browser.submit(shown, { consent: 'deny' }, REDIRECT));
      const parameters = Object.fromEntries(denied.url.searchParams);
      const { state } = begun;
      expect(parameters).toMatchObject({ error: 'access_denied', state, iss: stack.baseUrl });
      expect(parameters).not.toHaveProperty('code');
    }
  });

  test('cannot be given before signing in', async () => {
    const browser = new Browser();
    const form = formOf(await browser.open(stack.begin().url, REDIRECT));
    const body = new URLSearchParams({ csrf: '', consent: 'allow' });
    const { status } = await browser.send(`${form.action}/allow`, { method: 'POST', body });
    expect(status).toBe(400);
  });

  test('is accepted only from our form in the same browser, with its csrf field', async () => {
    const { begun, browser, shown } = await signedIn(await stack.newPerson());
    const { action, fields } = formOf(shown);
    const send = (from: Browser, changes: Record<string, string>, headers = {}) =>
      from.send(action, {
        method: 'POST',
        headers,
        body: new URLSearchParams({ ...fields, ...changes }),
      });
    for (const headers of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site', origin: stack.baseUrl },
      { 'sec-fetch-site': 'same-origin', origin: 'https://evil.example' },
      { origin: 'https://evil.example' },
      { origin: `${stack.baseUrl}0` },
      { origin: 'null' },
    ]) {
      expect([headers, (await send(browser, {}, headers)).status]).toEqual([headers, 400]);
    }
    expect((await send(new Browser(), {})).status).toBe(400);
    expect((await send(browser, { csrf: '' })).status).toBe(400);
    expect((await send(browser, { csrf: 'x'.repeat(43) })).status).toBe(400);
    // The cookies of this sign-in, with the browser cookie of another one.
    const other = new Browser();
    for (const [key, cookie] of browser.cookies) other.cookies.set(key, cookie);
    const key = [...other.cookies.keys()].find((one) => one.startsWith('rms_browser')) ?? '';
    other.cookies.set(key, { path: '/', attributes: '', value: 'y'.repeat(43) });
    expect((await send(other, {})).status).toBe(400);
    expect((await other.send(shown.url)).text).not.toContain('name="csrf"');

    const allowed = await browser.submit(shown, {}, REDIRECT);
    await expectTokens(allowed, begun);
    // After the first success the form is rejected.
    expect((await browser.submit(shown, {}, REDIRECT)).status).toBe(400);
  });

  test('page opens again after a too early request for the code, and its form can be sent again after a lost response', async () => {
    const begun = stack.begin();
    const browser = new Browser();
    const form = await browser.open(begun.url, REDIRECT);
    const uid = formOf(form).action.pathname.split('/').at(-1) ?? '';
    const codeUrl = `${stack.baseUrl}/oauth/authorize/${uid}`;
    const early = await browser.open(codeUrl, REDIRECT);
    expect([early.status, early.url.pathname]).toEqual([200, `/oauth/sign-in/${uid}`]);
    expect((await new Browser().send(codeUrl)).status).toBe(400);

    const { email, password: word } = await stack.newPerson();
    const password = await browser.submit(early, { email }, REDIRECT);
    const page = await browser.submit(password, { email, password: word }, REDIRECT);
    const again = await browser.open(codeUrl, REDIRECT);
    expect([again.url.pathname, again.text]).toEqual([page.url.pathname, page.text]);

    const { action, fields } = formOf(page);
    const post = { method: 'POST', body: new URLSearchParams(fields) };
    expect((await browser.send(action, post)).headers.get('location')).toContain(uid);
    await expectTokens(await browser.open(action, REDIRECT, post), begun);
  });
});

describe('a grant', () => {
  test('expires after 90 days, with its access token and its refresh token', async () => {
    const person = await stack.newPerson();
    const { body } = await stack.tokens(person);
    const { pool } = stack.under.database;
    const { rows } = await pool.query(
      `select extract(day from expires_at - created_at)::int as days from oauth_grants where user_id = $1`,
      [person.userId],
    );
    expect(rows).toEqual([{ days: 90 }]);
    const call = () =>
      fetch(`${stack.baseUrl}/mcp`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${body.access_token}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
      });
    const fields = { grant_type: 'refresh_token', refresh_token: String(body.refresh_token) };
    expect((await call()).status).toBe(200);
    await pool.query('update oauth_grants set expires_at = now() where user_id = $1', [
      person.userId,
    ]);
    expect((await call()).status).toBe(401);
    expect(await stack.token(fields)).toMatchObject({
      status: 400,
      body: { error: 'invalid_grant' },
    });
  });

  test('expires after the configured number of days', async () => {
    const other = await startSignInStack({ replicas: 1, MCP_GRANT_DAYS: 1 });
    const person = await other.newPerson();
    await other.tokens(person);
    const { rows } = await other.under.database.pool.query(
      'select extract(day from expires_at - created_at)::int as days from oauth_grants',
    );
    await other.stop();
    expect(rows).toEqual([{ days: 1 }]);
  });
});
