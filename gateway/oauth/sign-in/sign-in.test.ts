import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { TEST_AUTHOR } from '../../../test/kit/gateway/test-gateway.ts';
import { Browser, type Shown } from '../../../test/kit/oauth/browser.ts';
import {
  type Begun,
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { addMember, removeMember } from '../../tenancy/members.ts';
import { selfNameOf } from '../clients/self-name.ts';
import {
  createOneTimeRecords,
  type OneTimeRecords,
  purgeOneTimeRecords,
} from './one-time-records.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

const redeem = (shown: Shown, begun: Begun, redirectUri = REDIRECT) =>
  stack.token({
    grant_type: 'authorization_code',
    code: shown.url.searchParams.get('code') ?? '',
    redirect_uri: redirectUri,
    code_verifier: begun.verifier,
  });

describe('sign-in', () => {
  test('of a user with one shop ends with tokens for that shop', async () => {
    const person = await stack.newPerson();
    const begun = stack.begin();
    const shown = await stack.signIn(person, { begun });
    expect(shown.url.href.startsWith(`${REDIRECT}?`)).toBe(true);
    expect(Object.fromEntries(shown.url.searchParams)).toEqual({
      code: expect.any(String),
      state: begun.state,
      iss: stack.baseUrl,
    });
    const { status, body, headers } = await redeem(shown, begun);
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        token_type: 'Bearer',
        expires_in: 43_200,
        scope: 'mcp',
        // 43 base64url characters: more than 128 random bits.
        refresh_token: expect.stringMatching(/^[\w-]{43,}$/),
        access_token: expect.any(String),
      },
    });
    expect(shown.url.searchParams.get('code')).toMatch(/^[\w-]{43,}$/);
    expect(headers.get('cache-control')).toBe('no-store');
    const token = String(body.access_token);
    expect(decodeProtectedHeader(token)).toMatchObject({ alg: 'ES256', typ: 'at+jwt' });
    expect(decodeJwt(token)).toMatchObject({
      iss: stack.baseUrl,
      aud: `${stack.baseUrl}/mcp`,
      sub: String(person.userId),
      shop_id: String(person.shopIds[0]),
      client_id: 'rms-mcp',
      scope: 'mcp',
      jti: expect.any(String),
      grant_id: expect.any(String),
    });
  });

  test('of a client with a metadata document needs no registration', async () => {
    const person = await stack.newPerson();
    const client_id = 'https://claude.ai/oauth/mcp-oauth-client-metadata';
    const begun = stack.begin({ client_id });
    const { url } = await stack.signIn(person, { begun });
    const { status, body } = await stack.token({
      grant_type: 'authorization_code',
      client_id,
      code: url.searchParams.get('code') ?? '',
      redirect_uri: REDIRECT,
      code_verifier: begun.verifier,
    });
    expect([status, decodeJwt(String(body.access_token)).client_id]).toEqual([200, client_id]);
  });

  test('of a user with two shops shows the shop form, and the token is for the chosen shop', async () => {
    const person = await stack.newPerson({ shops: 2 });
    for (const shop of person.shopIds) {
      const begun = stack.begin();
      const { body } = await redeem(await stack.signIn(person, { begun, shop }), begun);
      expect(decodeJwt(String(body.access_token)).shop_id).toBe(String(shop));
    }
  });

  test('with login_hint skips the e-mail form', async () => {
    const person = await stack.newPerson();
    const hinted = stack.begin({ login_hint: ` ${person.email.toUpperCase()} ` });
    const { status, headers } = await new Browser().send(hinted.url);
    expect(status).toBe(303);
    expect(headers.get('location')).toMatch(`${stack.issuer}/authorize?`);
    const { body } = await redeem(await stack.signIn(person, { begun: hinted }), hinted);
    expect(body.access_token).toEqual(expect.any(String));

    const two = await stack.newPerson({ shops: 2 });
    const shops = await new Browser().send(stack.begin({ login_hint: two.email }).url);
    expect([shops.status, shops.text.match(/name="shop_id"/g)?.length]).toEqual([200, 2]);
  });

  test.each(['', 'auth0|123', 'not an address', 'a'.repeat(400)])(
    'with a login_hint that is not an address (%j) shows the e-mail form',
    async (hint) => {
      const { status, text } = await new Browser().send(stack.begin({ login_hint: hint }).url);
      expect([status, text.includes('name="email"')]).toEqual([200, true]);
    },
  );

  test('shows the e-mail form again after an invalid address', async () => {
    const browser = new Browser();
    const form = await browser.open(stack.begin().url, REDIRECT);
    const again = await browser.submit(form, { email: '"><script>alert(1)</script>' }, REDIRECT);
    expect(again.status).toBe(400);
    expect(again.text).toContain('role="alert"');
    expect(again.text).not.toContain('<script>alert(1)');
    expect(again.text).toContain('&#60;script&#62;alert(1)');
  });

  test('of a user without a shop ends with a page that leads back to the app', async () => {
    const person = await stack.newPerson({ shops: 0 });
    const browser = new Browser();
    const begun = stack.begin();
    const shown = await stack.signIn(person, { begun, browser });
    expect([shown.status, shown.text.includes('No email was found')]).toEqual([403, true]);
    const back = await browser.submit(shown, {}, REDIRECT);
    expect(Object.fromEntries(back.url.searchParams)).toMatchObject({
      error: 'access_denied',
      state: begun.state,
      iss: stack.baseUrl,
    });
  });

  test('with another address than the entered one, or an unconfirmed one, returns no code', async () => {
    const [entered, other] = [await stack.newPerson(), await stack.newPerson()];
    const browser = new Browser();
    const sent = await browser.send(stack.begin({ login_hint: entered.email }).url);
    const upstream = new URL(sent.headers.get('location') ?? '');
    upstream.searchParams.set('login_hint', other.email);
    const form = await browser.open(upstream, REDIRECT);
    const account = { email: other.email, password: other.password };
    const shown = await browser.submit(form, account, REDIRECT);
    expect([shown.status, shown.text.includes('another address')]).toEqual([403, true]);

    const unconfirmed = await stack.newPerson({ verified: false });
    const page = await stack.signIn(unconfirmed);
    expect([page.status, page.url.pathname]).toEqual([403, '/oauth/callback']);
  });

  test('does not accept the shop of another user', async () => {
    const [person, other] = [await stack.newPerson({ shops: 2 }), await stack.newPerson()];
    const browser = new Browser();
    const form = await browser.open(stack.begin({ login_hint: person.email }).url, REDIRECT);
    for (const shop_id of [String(other.shopIds[0]), '999999', '', '1 or 1=1', '01']) {
      const again = await browser.submit(form, { shop_id }, REDIRECT);
      expect([again.status, again.url.origin]).toEqual([400, stack.baseUrl]);
    }
  });

  test('returns no code when the membership ends during the sign-in', async () => {
    const person = await stack.newPerson({ shops: 2 });
    const shopId = person.shopIds[0] ?? 0n;
    await addMember(stack.under.database.pool, {
      shopId,
      email: `owner-${person.email}`,
      role: 'owner',
      by: TEST_AUTHOR,
    });
    const browser = new Browser();
    const form = await browser.open(stack.begin({ login_hint: person.email }).url, REDIRECT);
    const password = await browser.submit(form, { shop_id: String(shopId) }, REDIRECT);
    await removeMember(stack.under.database.pool, { shopId, email: person.email, by: TEST_AUTHOR });
    const { email, password: word } = person;
    const shown = await browser.submit(password, { email, password: word }, REDIRECT);
    expect([shown.status, shown.text.includes('No email was found')]).toEqual([403, true]);
  });
});

const LOOPBACK = 'http://127.0.0.1:51234/callback';
const register = (client_name: unknown, redirect_uri: string) =>
  fetch(`${stack.baseUrl}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ client_name, redirect_uris: [redirect_uri] }),
  });
/** The consent page of a new sign-in with this redirect URI. */
const consentPage = async (redirect_uri: string) => {
  const person = await stack.newPerson();
  const begun = stack.begin({ redirect_uri });
  return { person, begun, ...(await stack.signIn(person, { begun, stopsAtConsent: true })) };
};

describe('the name that a program gives itself at its registration', () => {
  test('is on the consent page, in the grant and in the audit log', async () => {
    expect((await register('Parcel & Co agent', LOOPBACK)).status).toBe(201);
    const { text, person } = await consentPage(LOOPBACK);
    expect(text).toMatch(
      /<dt>Calls itself<\/dt>\s*<dd>“Parcel &#38; Co agent” \(not verified\)<\/dd>/,
    );
    await stack.tokens(person, { begun: stack.begin({ redirect_uri: LOOPBACK }) });
    const { rows } = await stack.under.database.pool.query(
      `select g.self_name, a.detail->>'calls_itself' as audited
         from oauth_grants g join audit_log a on a.shop_id = g.shop_id and a.subject = g.id
        where g.user_id = $1 and a.action = 'assistant.connected'`,
      [person.userId],
    );
    const name = 'Parcel & Co agent';
    expect(rows).toEqual([{ self_name: name, audited: name }]);
  });

  test.each([
    ['another port', 'Agent', 'http://127.0.0.1:51235/callback', 'http://127.0.0.1:51236/callback'],
    ['a host', 'claude.ai', 'http://127.0.0.1:51237/callback', 'http://127.0.0.1:51237/callback'],
    [
      'an app that is no program on the machine',
      'Agent',
      'https://claude.ai/api/mcp/auth_callback',
      'https://claude.ai/api/mcp/auth_callback',
    ],
  ])('is not shown for %s', async (_, name, registered, used) => {
    expect((await register(name, registered)).status).toBe(201);
    expect((await consentPage(used)).text).not.toContain('Calls itself');
  });
});

test('a name is not shown for a later registration without one, nor after its time', async () => {
  const uri = 'http://127.0.0.1:51239/callback';
  expect((await register('First agent', uri)).status).toBe(201);
  expect((await register(undefined, uri)).status).toBe(201);
  expect((await consentPage(uri)).text).not.toContain('Calls itself');
  expect((await register('Second agent', uri)).status).toBe(201);
  const { pool } = stack.under.database;
  await pool.query("update oauth_tickets set expires_at = now() where kind = 'SelfName'");
  expect((await consentPage(uri)).text).not.toContain('Calls itself');
});

describe('a name that can be shown', () => {
  test.each([
    ['My agent', 'My agent'],
    ['  My\n agent (dev) ', 'My agent (dev)'],
    ['@scope/agent-1', undefined],
    ['Ｆｕｌｌ', 'Full'],
    ['Агент 7', 'Агент 7'],
    ['claude.ai', undefined],
    ['сlaude.ai agent', undefined],
    ['claude．ai', undefined],
    ['<b>x</b>', undefined],
    ['a\u202eb', undefined],
    ['a\u0000b', undefined],
    ['“App” Claude', undefined],
    ['x'.repeat(61), undefined],
    ['', undefined],
    [7, undefined],
  ])('%j: %j', (text, name) => {
    expect(selfNameOf(text)).toBe(name);
  });
});

describe('a known e-mail address cannot be distinguished from an unknown one', () => {
  const UNKNOWN = 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6@example.com';
  const shapeOf = ({ status, headers, text }: Shown) => ({
    status,
    length: text.length,
    headers: Object.fromEntries(
      [...headers]
        .filter(([name]) => !['date', 'x-request-id'].includes(name))
        .map(([name, value]) => [
          name,
          value.replace(/[\w-]{21,}/g, (secret) => `<${secret.length}>`),
        ]),
    ),
  });

  const ways: Record<string, (email: string) => Promise<Shown>> = {
    'by login_hint': (email) => new Browser().send(stack.begin({ login_hint: email }).url),
    'by the form': async (email) => {
      const browser = new Browser();
      const form = await browser.send(stack.begin().url);
      const action = /action="([^"]+)"/.exec(form.text)?.[1] ?? '';
      const body = new URLSearchParams({ email });
      return browser.send(`${stack.baseUrl}${action}`, { method: 'POST', body });
    },
  };

  const responseTo = (way: string, email: string): Promise<Shown> => {
    const send = ways[way];
    if (!send) throw new Error(`no way ${way}`);
    return send(email);
  };

  test.each(Object.keys(ways))('by status, headers and length %s', async (way) => {
    const { email } = await stack.newPerson();
    const shapes = await Promise.all(
      [email, UNKNOWN].map(async (one) => shapeOf(await responseTo(way, one))),
    );
    const [known, unknown] = shapes.map((shape, at) => {
      const address = [email, UNKNOWN][at] ?? '';
      return JSON.parse(JSON.stringify(shape).replaceAll(encodeURIComponent(address), '<address>'));
    });
    expect(known.status).toBe(303);
    expect(unknown).toEqual(known);
  });

  test('by response time', async () => {
    const { email } = await stack.newPerson();
    const times = new Map<string, number[]>([email, UNKNOWN].map((one) => [one, []]));
    const median = (one: string) => {
      const sorted = (times.get(one) ?? []).toSorted((a, b) => a - b);
      return sorted[Math.floor(sorted.length / 2)] ?? 0;
    };
    let difference = 1;
    // More rounds remove the noise of a busy machine, but not a real difference.
    for (let round = 0; round < 20 && difference > 0.05; round += 1) {
      for (let pair = 0; pair < 40; pair += 1) {
        for (const one of pair % 2 === 0 ? [email, UNKNOWN] : [UNKNOWN, email]) {
          const { url } = stack.begin({ login_hint: one });
          const before = performance.now();
          await new Browser().send(url);
          times.get(one)?.push(performance.now() - before);
        }
      }
      difference = Math.abs(median(email) / median(UNKNOWN) - 1);
    }
    expect(difference).toBeLessThanOrEqual(0.05);
  });
});

describe('a one-time record', () => {
  let db: TestDatabase;
  let records: OneTimeRecords;
  beforeAll(async () => {
    db = await createTestDatabase('gateway');
    records = createOneTimeRecords(db.pool);
  });
  afterAll(() => db.drop());

  const newId = (): string => randomBytes(32).toString('base64url');
  const content = { text: 'a secret text' };

  /** The plan that PostgreSQL uses for a large table. */
  async function planOfPurge(): Promise<string> {
    const lines: string[] = [];
    const client = await db.pool.connect();
    await client.query('set enable_seqscan = off');
    const explaining = new Proxy(client, {
      get: () => async (sql: string, values?: unknown[]) => {
        const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain ${sql}`, values);
        lines.push(...rows.map((row) => row['QUERY PLAN']));
        return { rowCount: 0 };
      },
    });
    await purgeOneTimeRecords(explaining);
    client.release(true);
    return lines.join('\n');
  }

  test('is found only by its id and kind, and the database contains neither id nor content', async () => {
    const id = newId();
    await records.put('SignIn', id, { content, ttlS: 60 });
    expect(await records.find('SignIn', id)).toEqual({
      content,
      consumedMsAgo: null,
      hasExpired: false,
    });
    expect(await records.find('SignedIn', id)).toBeUndefined();
    expect(await records.find('SignIn', newId())).toBeUndefined();
    const { rows } = await db.pool.query('select oauth_tickets::text as text from oauth_tickets');
    const stored = rows.map(({ text }) => text).join();
    for (const word of [id, content.text]) {
      expect(stored).not.toContain(word);
      expect(stored).not.toContain(Buffer.from(word).toString('hex'));
    }
  });

  test('is returned to one of many concurrent callers of take', async () => {
    const id = newId();
    await records.put('SignIn', id, { content, ttlS: 60 });
    const taken = await Promise.all(Array.from({ length: 16 }, () => records.take('SignIn', id)));
    expect(taken.filter((one) => one !== undefined)).toEqual([content]);
  });

  test('is consumed by one of many callers, again within the grace period, and not after its expiry', async () => {
    const [id, past] = [newId(), newId()];
    await records.put('RefreshToken', id, { content, ttlS: 60 });
    await records.put('RefreshToken', past, { content, ttlS: -1 });
    const all = Array.from({ length: 16 }, () => records.consume('RefreshToken', id, 0));
    expect((await Promise.all(all)).filter(Boolean)).toHaveLength(1);
    expect(await records.consume('RefreshToken', id, 60_000)).toBe(true);
    expect(await records.consume('RefreshToken', past, 60_000)).toBe(false);
    expect((await records.find('RefreshToken', id))?.consumedMsAgo).toBeGreaterThanOrEqual(0);
    expect(await records.take('RefreshToken', past)).toBeUndefined();
  });

  test('is deleted after its expiry; a used record is stored for one more day', async () => {
    const [live, past, used, usedLong] = [newId(), newId(), newId(), newId()];
    for (const id of [live, past, used, usedLong]) {
      await records.put('AuthorizationCode', id, { content, ttlS: 60 });
    }
    for (const id of [used, usedLong]) await records.consume('AuthorizationCode', id, 0);
    const expire = (id: string, hours: number) =>
      records.put('AuthorizationCode', id, { content, ttlS: -3_600 * hours });
    await Promise.all([expire(past, 1), expire(used, 1), expire(usedLong, 25)]);
    await purgeOneTimeRecords(db.pool);
    const left = await Promise.all(
      [live, past, used, usedLong].map((id) => records.find('AuthorizationCode', id)),
    );
    expect(left.map((one) => one !== undefined)).toEqual([true, false, true, false]);
  });

  test('is deleted by statements of bounded size that use the index on the expiry', async () => {
    await db.pool.query(
      `insert into oauth_tickets (kind, id_hash, sealed, expires_at)
       select 'SignIn', sha256(n::text::bytea), 'x', now() - interval '1 minute'
         from generate_series(1, 2500) as n`,
    );
    const plan = await planOfPurge();
    expect(plan).toMatch(/ oauth_tickets_expires .*\n\s+Index Cond: \(expires_at < now\(\)\)/);
    const left = async () =>
      (await db.pool.query("select from oauth_tickets where sealed = 'x'")).rowCount;
    const counts: unknown[] = [];
    while (await purgeOneTimeRecords(db.pool)) counts.push(await left());
    expect([counts, await left()]).toEqual([[1_500, 500], 0]);
  });
});
