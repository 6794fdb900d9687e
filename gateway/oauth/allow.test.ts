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
  // The error of a database that is starting.
  await migrator.query(
    `create function gateway.fail() returns trigger language plpgsql
     as $$ begin raise exception 'starting up' using errcode = '57P03'; end $$`,
  );
});
afterAll(async () => {
  await migrator.end();
  await stack.stop();
});

interface Asked {
  readonly person: Person;
  readonly begun: Begun;
  readonly browser: Browser;
  readonly page: Shown;
  /** The URL of the form. */
  readonly allow: URL;
  /** The fields of the form. */
  readonly form: RequestInit;
}

/** A sign-in at the consent page. */
async function asked(): Promise<Asked> {
  const person = await stack.newPerson();
  const begun = stack.begin({ redirect_uri: LOOPBACK, login_hint: person.email });
  const browser = new Browser();
  const password = await browser.open(begun.url, LOOPBACK);
  const account = { email: person.email, password: person.password };
  const page = await browser.submit(password, account, LOOPBACK);
  const { action: allow, fields } = formOf(page);
  const form = { method: 'POST', body: new URLSearchParams(fields) };
  return { person, begun, browser, page, allow, form };
}

const endMembership = ({ person }: Asked, db: pg.ClientBase | pg.Pool): Promise<unknown> =>
  db.query('delete from memberships where user_id = $1', [person.userId]);

/** Runs `work` while the trigger makes a table fail. */
async function whileFailing<T>(trigger: string, work: () => Promise<T>): Promise<T> {
  await migrator.query(`create trigger failing ${trigger} execute function gateway.fail()`);
  const [, table] = / on (\S+)/.exec(trigger) ?? [];
  return work().finally(() => migrator.query(`drop trigger failing on ${table}`));
}

async function grantsOf({ person }: Asked): Promise<[grants: number, entries: number]> {
  const { rows } = await stack.under.database.pool.query<{ grants: number; entries: number }>(
    `select (select count(*) from oauth_grants where user_id = $1)::int as grants,
            (select count(*) from audit_log
              where action = 'assistant.connected' and actor_id = $1::text)::int as entries`,
    [person.userId],
  );
  return [rows[0]?.grants ?? 0, rows[0]?.entries ?? 0];
}

async function expectTokens({ begun }: Asked, shown: Shown): Promise<void> {
  const { status } = await stack.token({
    grant_type: 'authorization_code',
    code: shown.url.searchParams.get('code') ?? '',
    redirect_uri: LOOPBACK,
    code_verifier: begun.verifier,
  });
  expect(status).toBe(200);
}

async function expectDenied(it: Asked, shown: Shown): Promise<void> {
  expect(shown.url.href.startsWith(`${LOOPBACK}?`)).toBe(true);
  const answer = Object.fromEntries(shown.url.searchParams);
  const { state } = it.begun;
  expect(answer).toMatchObject({ error: 'access_denied', state, iss: stack.baseUrl });
  expect(answer).not.toHaveProperty('code');
}

describe('a membership that ends', () => {
  test('before the form is sent leads to the page for users without a shop, and to no grant', async () => {
    const it = await asked();
    await endMembership(it, stack.under.database.pool);
    const shown = await it.browser.send(it.allow, it.form);
    expect([shown.status, shown.text.includes('No email was found')]).toEqual([403, true]);
    expect(await grantsOf(it)).toEqual([0, 0]);
    await expectDenied(it, await it.browser.submit(shown, {}, LOOPBACK));
  });

  test('while the form is being handled leads to no grant either', async () => {
    const it = await asked();
    const { pool } = stack.under.database;
    const ending = await pool.connect();
    await ending.query('begin');
    await endMembership(it, ending);
    const allowing = it.browser.send(it.allow, it.form);
    const isWaiting = async () =>
      (await pool.query('select from pg_locks where not granted')).rowCount !== 0;
    await until(isWaiting).finally(() => ending.query('commit'));
    ending.release();
    expect((await allowing).status).toBe(403);
    expect(await grantsOf(it)).toEqual([0, 0]);
  });

  test('before the code is issued is reported to the app', async () => {
    const it = await asked();
    const { headers } = await it.browser.send(it.allow, it.form);
    const resume = new URL(headers.get('location') ?? '', stack.baseUrl);
    await endMembership(it, stack.under.database.pool);
    await expectDenied(it, await it.browser.open(resume, LOOPBACK));
  });
});

test('when the code cannot be stored, the page leads back to the app: the request cannot be retried', async () => {
  const it = await asked();
  const { headers } = await it.browser.send(it.allow, it.form);
  const resume = new URL(headers.get('location') ?? '', stack.baseUrl);
  const trigger = `before insert on gateway.oauth_tickets for each row when (new.kind = 'AuthorizationCode')`;
  const { status, text } = await whileFailing(trigger, () => it.browser.send(resume));
  expect([status, text.includes('Go back to your app')]).toEqual([503, true]);
  expect(text).not.toContain('Try again');
});

describe('allowing it', () => {
  test.each([
    ['the grant', 'before insert on gateway.oauth_grants'],
    [
      'what was decided',
      `before update on gateway.oauth_tickets for each row when (old.kind = 'Interaction')`,
    ],
  ])('works when sent again after the database could not store %s', async (_, trigger) => {
    const it = await asked();
    const failed = await whileFailing(trigger, () => it.browser.send(it.allow, it.form));
    expect([failed.status, failed.text.includes('Try again in a moment')]).toEqual([503, true]);
    const page = await it.browser.send(it.page.url);
    expect([page.status, page.text]).toEqual([200, it.page.text]);
    await expectTokens(it, await it.browser.open(it.allow, LOOPBACK, it.form));
    expect(await grantsOf(it)).toEqual([1, 1]);
  });

  test('many times concurrently creates one grant', async () => {
    const it = await asked();
    const sent = Array.from({ length: 8 }, () => it.browser.send(it.allow, it.form));
    const answers = await Promise.all(sent);
    const places = new Set(answers.map(({ headers }) => headers.get('location')));
    expect([[...places].length, answers.every(({ status }) => status === 303)]).toEqual([1, true]);
    const resume = new URL([...places][0] ?? '', stack.baseUrl);
    await expectTokens(it, await it.browser.open(resume, LOOPBACK));
    expect(await grantsOf(it)).toEqual([1, 1]);
  });
});
