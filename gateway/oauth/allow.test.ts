import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { Browser, formOf, type Shown } from '../../test/kit/oauth/browser.ts';
import {
  type Begun,
  type Person,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';
import { until } from '../../test/kit/until.ts';

const LOOPBACK = 'http://127.0.0.1:51234/callback';

let stack: SignInStack;
let migrator: pg.Client;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
  migrator = new pg.Client({ connectionString: stack.under.database.migratorUrl });
  await migrator.connect();
  // PostgreSQL raises this error while it is starting.
  await migrator.query(
    `create function gateway.fail() returns trigger language plpgsql
     as $$ begin raise exception 'starting up' using errcode = '57P03'; end $$`,
  );
});
afterAll(async () => {
  await migrator.end();
  await stack.stop();
});

interface ConsentPage {
  readonly user: Person;
  readonly begun: Begun;
  readonly browser: Browser;
  readonly page: Shown;
  /** The URL of the form. */
  readonly allow: URL;
  /** The fields of the form. */
  readonly form: RequestInit;
}

/** Signs a new user in, up to the consent page. */
async function atConsentPage(): Promise<ConsentPage> {
  const user = await stack.newPerson();
  const begun = stack.begin({ redirect_uri: LOOPBACK, login_hint: user.email });
  const browser = new Browser();
  const password = await browser.open(begun.url, LOOPBACK);
  const account = { email: user.email, password: user.password };
  const page = await browser.submit(password, account, LOOPBACK);
  const { action: allow, fields } = formOf(page);
  const form = { method: 'POST', body: new URLSearchParams(fields) };
  return { user, begun, browser, page, allow, form };
}

const endMembership = ({ user }: ConsentPage, db: pg.ClientBase | pg.Pool): Promise<unknown> =>
  db.query('delete from memberships where user_id = $1', [user.userId]);

/** Runs `work` while a trigger makes every write of a table fail. */
async function whileFailing<T>(trigger: string, work: () => Promise<T>): Promise<T> {
  await migrator.query(`create trigger failing ${trigger} execute function gateway.fail()`);
  const [, table] = / on (\S+)/.exec(trigger) ?? [];
  return work().finally(() => migrator.query(`drop trigger failing on ${table}`));
}

async function grantsOf({ user }: ConsentPage): Promise<[grants: number, entries: number]> {
  const { rows } = await stack.under.database.pool.query<{ grants: number; entries: number }>(
    `select (select count(*) from oauth_grants where user_id = $1)::int as grants,
            (select count(*) from audit_log
              where action = 'assistant.connected' and actor_id = $1::text)::int as entries`,
    [user.userId],
  );
  return [rows[0]?.grants ?? 0, rows[0]?.entries ?? 0];
}

async function expectTokens({ begun }: ConsentPage, shown: Shown): Promise<void> {
  const { status } = await stack.token({
    grant_type: 'authorization_code',
    code: shown.url.searchParams.get('code') ?? '',
    redirect_uri: LOOPBACK,
    code_verifier: begun.verifier,
  });
  expect(status).toBe(200);
}

async function expectDenied(consent: ConsentPage, shown: Shown): Promise<void> {
  expect(shown.url.href.startsWith(`${LOOPBACK}?`)).toBe(true);
  const parameters = Object.fromEntries(shown.url.searchParams);
  const { state } = consent.begun;
  expect(parameters).toMatchObject({ error: 'access_denied', state, iss: stack.baseUrl });
  expect(parameters).not.toHaveProperty('code');
}

describe('a membership that ends', () => {
  test('before the form is sent: the page says that there is no shop, and no grant is stored', async () => {
    const consent = await atConsentPage();
    await endMembership(consent, stack.under.database.pool);
    const shown = await consent.browser.send(consent.allow, consent.form);
    expect([shown.status, shown.text.includes('No email was found')]).toEqual([403, true]);
    expect(await grantsOf(consent)).toEqual([0, 0]);
    await expectDenied(consent, await consent.browser.submit(shown, {}, LOOPBACK));
  });

  test('while the form is being handled: no grant is stored', async () => {
    const consent = await atConsentPage();
    const { pool } = stack.under.database;
    const ending = await pool.connect();
    await ending.query('begin');
    await endMembership(consent, ending);
    const allowing = consent.browser.send(consent.allow, consent.form);
    const isWaiting = async () =>
      (await pool.query('select from pg_locks where not granted')).rowCount !== 0;
    await until(isWaiting).finally(() => ending.query('commit'));
    ending.release();
    expect((await allowing).status).toBe(403);
    expect(await grantsOf(consent)).toEqual([0, 0]);
  });

  test('before the code is issued: the app gets access_denied', async () => {
    const consent = await atConsentPage();
    const { headers } = await consent.browser.send(consent.allow, consent.form);
    const resume = new URL(headers.get('location') ?? '', stack.baseUrl);
    await endMembership(consent, stack.under.database.pool);
    await expectDenied(consent, await consent.browser.open(resume, LOOPBACK));
  });
});

test('when the code cannot be stored, the page says to connect again', async () => {
  const consent = await atConsentPage();
  const { headers } = await consent.browser.send(consent.allow, consent.form);
  const resume = new URL(headers.get('location') ?? '', stack.baseUrl);
  const trigger = `before insert on gateway.oauth_tickets for each row when (new.kind = 'AuthorizationCode')`;
  const { status, text } = await whileFailing(trigger, () => consent.browser.send(resume));
  expect([status, text.includes('Go back to your app')]).toEqual([503, true]);
  expect(text).not.toContain('Try again');
});

describe('the consent form', () => {
  test.each([
    ['the grant', 'before insert on gateway.oauth_grants'],
    [
      'the decision',
      `before update on gateway.oauth_tickets for each row when (old.kind = 'Interaction')`,
    ],
  ])('can be sent again after the database could not store %s', async (_, trigger) => {
    const consent = await atConsentPage();
    const failed = await whileFailing(trigger, () =>
      consent.browser.send(consent.allow, consent.form),
    );
    expect([failed.status, failed.text.includes('Try again in a moment')]).toEqual([503, true]);
    const page = await consent.browser.send(consent.page.url);
    expect([page.status, page.text]).toEqual([200, consent.page.text]);
    await expectTokens(consent, await consent.browser.open(consent.allow, LOOPBACK, consent.form));
    expect(await grantsOf(consent)).toEqual([1, 1]);
  });

  test('creates one grant when sent many times concurrently', async () => {
    const consent = await atConsentPage();
    const sent = Array.from({ length: 8 }, () => consent.browser.send(consent.allow, consent.form));
    const responses = await Promise.all(sent);
    const locations = new Set(responses.map(({ headers }) => headers.get('location')));
    expect([[...locations].length, responses.every(({ status }) => status === 303)]).toEqual([
      1,
      true,
    ]);
    const resume = new URL([...locations][0] ?? '', stack.baseUrl);
    await expectTokens(consent, await consent.browser.open(resume, LOOPBACK));
    expect(await grantsOf(consent)).toEqual([1, 1]);
  });
});
