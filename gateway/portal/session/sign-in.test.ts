import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SessionService } from '../../../proto/gen/rms/portal/v1/session_pb.ts';
import { createInProcessBus } from '../../../services/platform/bus/in-process.ts';
import { TEST_AUTHOR } from '../../../test/kit/gateway/test-gateway.ts';
import { Browser, type Shown } from '../../../test/kit/oauth/browser.ts';
import {
  type Person,
  type SignInStack,
  startSignInStack,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { portalClient } from '../../../test/kit/portal/portal.ts';
import { listAudit } from '../../tenancy/audit-list.ts';
import { removeMember } from '../../tenancy/members.ts';

let stack: SignInStack;
const lines: string[] = [];
beforeAll(async () => {
  const bus = createInProcessBus();
  const logDestination = { write: (line: string): void => void lines.push(line) };
  const mails = { SMTP_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'returns@example.com', bus };
  stack = await startSignInStack({ replicas: 1, ...mails, LOG_LEVEL: 'info', logDestination });
});
afterAll(() => stack.stop());

const COOKIE = 'rms_portal /';

/** Signs in like a person. Stops at the portal's page, or at the page that says why not. */
async function signIn(
  person: Person,
  browser = new Browser(),
  path = '/portal/sign-in?return_to=/portal/webhooks',
  agent = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
) {
  const callback = `${stack.baseUrl}/portal/callback`;
  const { email, password } = person;
  let shown = await browser.open(`${stack.baseUrl}${path}`, callback);
  if (shown.text.includes('name="password"'))
    shown = await browser.submit(shown, { email, password }, callback);
  const ended = await browser.send(shown.url, { headers: { 'user-agent': agent } });
  return { callback: shown.url, ended, browser, secret: browser.cookies.get(COOKIE)?.value };
}

function sessionClient(secret: string | undefined) {
  const headers = { cookie: `rms_portal=${secret}`, 'sec-fetch-site': 'same-origin' };
  return portalClient(SessionService, stack.baseUrl, headers);
}

const sessionOf = (secret: string | undefined) => sessionClient(secret).getSession({});

/** The lines about refused sign-ins since the last call. */
const refusals = () =>
  lines
    .splice(0)
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => msg.startsWith('sign-in to the portal refused'));

const title = ({ text }: Shown): string => /<h1>(.*?)<\/h1>/.exec(text)?.[1] ?? '';

describe('sign-in to the portal', () => {
  test('starts a session in the shop of the person, at the page that was asked for', async () => {
    const person = await stack.newPerson();
    const { ended, browser, secret } = await signIn(person);
    expect([ended.status, ended.headers.get('location')]).toEqual([303, '/portal/webhooks']);
    expect(ended.headers.get('cache-control')).toBe('no-store');
    expect(browser.cookies.get(COOKIE)?.attributes).toBe(
      'Max-Age=43200; Path=/; HttpOnly; SameSite=Lax',
    );
    const session = await sessionOf(secret);
    expect(session.user?.id).toBe(String(person.userId));
    expect(session.shop?.id).toBe(String(person.shopIds[0]));
  });

  test('is recorded with address and device, and mailed to the person at a new device', async () => {
    const person = await stack.newPerson();
    const iPhone =
      'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/605.1';
    await signIn(person);
    await signIn(person, new Browser(), '/portal/sign-in', iPhone);
    await signIn(person, new Browser(), '/portal/sign-in', iPhone);
    const { pool } = stack.under.database;
    const [shopId = 0n] = person.shopIds;
    const entries = await listAudit(pool, { shopId, action: 'session.started', limit: 9 });
    const by = { actorId: String(person.userId), source: '127.0.0.1' };
    expect(entries).toMatchObject([
      { ...by, detail: { device: 'Safari on iPhone' } },
      { ...by, detail: { device: 'Safari on iPhone', new_device: true } },
      { ...by, detail: { device: 'Firefox on Linux' } },
    ]);
    const { rows } = await pool.query('select user_id, kind, facts from mails where shop_id = $1', [
      shopId,
    ]);
    expect(rows).toMatchObject([
      {
        user_id: person.userId,
        kind: 'new_device',
        facts: [{ device: 'Safari on iPhone', source: '127.0.0.1' }],
      },
    ]);
  });

  test('never uses an id that the browser had before (fixation)', async () => {
    const person = await stack.newPerson();
    const browser = new Browser();
    const planted = 'x'.repeat(43);
    browser.cookies.set(COOKIE, { value: planted, path: '/', attributes: '' });
    const { secret } = await signIn(person, browser);
    expect(secret).not.toBe(planted);
    await expect(sessionOf(planted)).rejects.toThrow('Sign in again');
    const again = await signIn(person, browser);
    expect(again.secret).not.toBe(secret);
    await expect(sessionOf(secret)).rejects.toThrow('Sign in again');
    await expect(sessionOf(again.secret)).resolves.toBeDefined();
  });

  test('cannot be completed by another browser, or twice', async () => {
    const person = await stack.newPerson();
    const browser = new Browser();
    const callback = `${stack.baseUrl}/portal/callback`;
    const form = await browser.open(`${stack.baseUrl}/portal/sign-in`, callback);
    const { email, password } = person;
    const { url } = await browser.submit(form, { email, password }, callback);
    refusals();
    const victim = await new Browser().send(url);
    expect([victim.status, title(victim)]).toEqual([400, 'This sign-in has ended']);
    expect(victim.headers.get('set-cookie')).toBeNull();
    expect(refusals()).toMatchObject([
      { source: '127.0.0.1', requestId: victim.headers.get('x-request-id') },
    ]);
    expect((await browser.send(url)).status).toBe(303);
    expect((await browser.send(url)).status).toBe(400);
  });

  test.each(['?code=x', '?state=x&code=y', '?state=x&state=y&code=z', ''])(
    'an invented response %j starts nothing',
    async (query) => {
      const shown = await new Browser().send(`${stack.baseUrl}/portal/callback${query}`);
      expect([shown.status, title(shown)]).toEqual([400, 'This sign-in has ended']);
    },
  );

  test('explains to a person without a shop what to do', async () => {
    const person = await stack.newPerson({ shops: 0 });
    const { ended, secret } = await signIn(person);
    expect([ended.status, title(ended)]).toEqual([403, 'No shop is linked to your address']);
    expect(ended.text).toContain('href="/portal/sign-in?prompt=login"');
    expect(secret).toBeUndefined();
  });

  test('explains to a removed member the same', async () => {
    const person = await stack.newPerson();
    const [shopId = 0n] = person.shopIds;
    await removeMember(stack.under.database.pool, {
      shopId,
      email: person.email,
      by: TEST_AUTHOR,
    }).catch(() => {});
    await stack.under.database.pool.query('delete from memberships where user_id = $1', [
      person.userId,
    ]);
    expect(title((await signIn(person)).ended)).toBe('No shop is linked to your address');
  });

  test('needs a confirmed address', async () => {
    const person = await stack.newPerson({ verified: false });
    refusals();
    const { ended, secret } = await signIn(person);
    expect([title(ended), secret]).toEqual(['Your address is not confirmed', undefined]);
    const requestId = ended.headers.get('x-request-id');
    expect(refusals()).toMatchObject([{ source: '127.0.0.1', requestId }]);
  });

  test('lets a person with several shops switch, and remembers the last one', async () => {
    const person = await stack.newPerson({ shops: 2 });
    const first = await signIn(person);
    const session = await sessionOf(first.secret);
    expect(session.shops.map(({ id }) => id).toSorted()).toEqual(
      person.shopIds.map(String).toSorted(),
    );
    const other = session.shops.find(({ id }) => id !== session.shop?.id)?.id ?? '';
    const headers = { cookie: `rms_portal=${first.secret}`, 'sec-fetch-site': 'same-origin' };
    await portalClient(SessionService, stack.baseUrl, headers).switchShop({ shopId: other });
    const second = await signIn(person);
    expect((await sessionOf(second.secret)).shop?.id).toBe(other);
  });

  test('asks again when the page says so', async () => {
    const person = await stack.newPerson();
    const { browser } = await signIn(person);
    const silent = await browser.open(
      `${stack.baseUrl}/portal/sign-in`,
      `${stack.baseUrl}/portal/callback`,
    );
    expect(silent.status).toBe(0);
    const asked = await browser.open(
      `${stack.baseUrl}/portal/sign-in?prompt=login`,
      `${stack.baseUrl}/portal/callback`,
    );
    expect(asked.text).toContain('name="password"');
  });

  test.each([
    ['another site, without a click', 'cross-site', '', true],
    ['another site, with a click', 'cross-site', '?1', false],
    ['nowhere: an address that was typed', 'none', '', false],
  ])('that comes from %s', async (_, site, user, asks) => {
    const { browser } = await signIn(await stack.newPerson());
    const headers = { 'sec-fetch-site': site, 'sec-fetch-user': user };
    const callback = `${stack.baseUrl}/portal/callback`;
    const shown = await browser.open(`${stack.baseUrl}/portal/sign-in`, callback, { headers });
    expect(shown.text.includes('name="password"')).toBe(asks);
  });

  test('asks again after a sign-out, also on the devices that it signed out', async () => {
    const person = await stack.newPerson();
    const [here, there] = [await signIn(person), await signIn(person, new Browser())];
    const cookies: (string | null)[] = [];
    await sessionClient(here.secret).signOutEverywhere(
      {},
      { onHeader: (headers) => cookies.push(headers.get('set-cookie')) },
    );
    const [pair = ''] = cookies[0]?.split(';') ?? [];
    here.browser.cookies.set(COOKIE, {
      value: pair.split('=')[1] ?? '',
      path: '/',
      attributes: '',
    });
    for (const { browser } of [here, there]) {
      const asked = await browser.open(
        `${stack.baseUrl}/portal/sign-in`,
        `${stack.baseUrl}/portal/callback`,
      );
      expect(asked.text).toContain('name="password"');
    }
  });

  test('never leads to another site', async () => {
    const person = await stack.newPerson();
    const { ended } = await signIn(
      person,
      new Browser(),
      '/portal/sign-in?return_to=https://evil.example/',
    );
    expect(ended.headers.get('location')).toBe('/portal');
  });
});
