import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { Browser, formOf, type Shown } from '../../../test/kit/oauth/browser.ts';
import {
  type Begun,
  CLIENT_ID,
  type Person,
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { until } from '../../../test/kit/until.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

/** Spellings of the address of the MCP server, and the address of the service. */
const RESOURCES = ['BASE', 'BASE/', 'BASE/mcp', 'BASE/mcp/'];
const withBase = (changes: Record<string, string | undefined>) => ({
  ...changes,
  ...(changes.resource && { resource: changes.resource.replace('BASE', stack.baseUrl) }),
});

const open = (url: URL | string) => new Browser().send(url);

describe('a redirect URI that is not on the list gets a page, never a redirect', () => {
  test.each([
    'https://evil.example/callback',
    'https://claude.ai.evil.example/api/mcp/auth_callback',
    'https://evil.example/https://claude.ai/api/mcp/auth_callback',
    'https://claude.ai@evil.example/api/mcp/auth_callback',
    'https://claude.ai:443/api/mcp/auth_callback',
    'https://claude.ai:8443/api/mcp/auth_callback',
    'https://CLAUDE.ai/api/mcp/auth_callback',
    'https://claude.ai./api/mcp/auth_callback',
    'http://claude.ai/api/mcp/auth_callback',
    'https://claude.ai/api/mcp/auth_callback/',
    'https://claude.ai/api/mcp/auth_callback?next=https://evil.example',
    'https://claude.ai/api/mcp/auth_callback#x',
    'https://claude.ai/api/mcp/auth_callback%00.evil.example',
    'https://claude.ai/api/mcp/../mcp/auth_callback',
    'https://claude.ai/api/mcp/%61uth_callback',
    'https://claude.ai\\@evil.example/api/mcp/auth_callback',
    'https:claude.ai/api/mcp/auth_callback',
    '//claude.ai/api/mcp/auth_callback',
    ' https://claude.ai/api/mcp/auth_callback',
    'https://claude.ai/api/mcp/auth_callback\r\nSet-Cookie: x=y',
    'https://chatgpt.com/connector/oauth/a/b',
    'https://chatgpt.com/connector/oauth/..%2f..%2fevil',
    'https://chatgpt.com/connector/oauth/',
    'https://chatgpt.com/connector/oauth/{id}',
    'http://127.0.0.1:8080/evil',
    'http://127.0.0.1:99999/callback',
    'http://127.0.0.1:080/callback',
    'http://127.0.0.1:/callback',
    'http://user:password@127.0.0.1:1/callback',
    'http://127.1:8080/callback',
    'http://2130706433/callback',
    'http://0x7f.0.0.1/callback',
    'http://127.0.0.1.evil.example:8080/callback',
    'http://localhost.evil.example/callback',
    'https://127.0.0.1:8080/callback',
    'http://[::ffff:127.0.0.1]:8080/callback',
    'http://192.168.0.1:8080/callback',
    'cursor://evil/oauth/callback',
    'javascript:alert(document.domain)',
    'data:text/html,<script>alert(1)</script>',
    '/oauth/callback',
    'null',
    '',
  ])('%j', async (uri) => {
    const { status, headers, text } = await open(stack.begin({ redirect_uri: uri }).url);
    expect(status).toBe(400);
    expect(headers.get('location')).toBeNull();
    expect(headers.get('refresh')).toBeNull();
    expect(text).not.toMatch(/<script|http-equiv|<a /i);
    expect(text).toContain('in the setting MCP_CLIENTS');
    expect(text).toContain(`<li>${REDIRECT}</li>`);
  });

  test('a missing or repeated redirect URI, or an unknown client', async () => {
    const repeated = `${stack.begin().url}&redirect_uri=${encodeURIComponent(REDIRECT)}`;
    const responses = await Promise.all([
      open(stack.begin({ redirect_uri: undefined }).url),
      open(repeated),
      open(stack.begin({ client_id: undefined }).url),
      open(stack.begin({ client_id: 'nobody' }).url),
      open(stack.begin({ client_id: 'https://evil.example/client.json' }).url),
      open(`${stack.baseUrl}/oauth/authorize`),
    ]);
    for (const { status, headers } of responses) {
      expect([status, headers.get('location')]).toEqual([400, null]);
    }
    for (const { text } of responses.slice(2)) {
      expect(text).toContain('in the setting MCP_CLIENTS');
      expect(text).toContain(`<li>${CLIENT_ID}</li>`);
    }
  });
});

describe('parameters', () => {
  test.each([
    'client_id',
    'state',
    'scope',
    'code_challenge',
    'response_type',
    'login_hint',
    'other',
  ])('%s sent twice is rejected', async (name) => {
    const { url } = stack.begin({ [name]: name === 'client_id' ? CLIENT_ID : 'x' });
    const { status, headers } = await open(`${url}&${name}=x`);
    expect([status, headers.get('location')]).toEqual([400, null]);
  });

  const none = undefined;
  test.each<[string, Record<string, string | undefined>, string]>([
    ['no PKCE', { code_challenge: none, code_challenge_method: none }, 'invalid_request'],
    ['PKCE plain', { code_challenge_method: 'plain' }, 'invalid_request'],
    [
      'PKCE without its method, which means plain',
      { code_challenge_method: none },
      'invalid_request',
    ],
    ['an invalid challenge', { code_challenge: 'short' }, 'invalid_request'],
    ['the resource of another server', { resource: 'https://evil.example/mcp' }, 'invalid_target'],
    ['another resource of ours', { resource: 'BASE/api' }, 'invalid_target'],
    ['a resource with a fragment', { resource: 'BASE/mcp#' }, 'invalid_target'],
    ['a resource that is not a URL', { resource: 'mcp' }, 'invalid_target'],
    ['another scope', { scope: 'developer_tools' }, 'invalid_scope'],
    ['response type token', { response_type: 'token' }, 'unsupported_response_type'],
    ['an id token', { response_type: 'code id_token' }, 'unsupported_response_type'],
    ['no response type', { response_type: none }, 'invalid_request'],
    ['an empty response type', { response_type: '' }, 'invalid_request'],
    ['response mode fragment', { response_mode: 'fragment' }, 'unsupported_response_mode'],
    ['response mode form_post', { response_mode: 'form_post' }, 'unsupported_response_mode'],
    ['prompt=none', { prompt: 'none' }, 'login_required'],
    ['a request object', { request: 'eyJhbGciOiJub25lIn0.e30.' }, 'request_not_supported'],
    ['a request URI', { request_uri: 'https://evil.example/r' }, 'request_uri_not_supported'],
  ])('%s is reported to the client, with state and issuer', async (_, changes, error) => {
    const parameters = withBase(changes);
    const { url, state } = stack.begin(parameters);
    const { status, headers } = await open(url);
    const location = headers.get('location') ?? '';
    expect([status, location.startsWith(`${REDIRECT}?`)]).toEqual([303, true]);
    const result = Object.fromEntries(new URL(location).searchParams);
    expect(result).toMatchObject({ error, state, iss: stack.baseUrl });
    expect(result).not.toHaveProperty('code');
  });

  test.each<[string, Record<string, string | undefined>]>([
    ['no other parameters', {}],
    ['the scope mcp', { scope: 'mcp' }],
    ['the scope mcp and scopes of other servers', { scope: 'openid mcp offline_access' }],
    // RFC 6749, 3.1: a parameter without a value counts as omitted.
    ...['scope', 'resource', 'max_age', 'prompt', 'response_mode', 'request', 'state', 'nonce'].map(
      (name): [string, Record<string, string>] => [`an empty ${name}`, { [name]: '' }],
    ),
    ...RESOURCES.map((resource): [string, { resource: string }] => [
      `the resource ${resource}`,
      { resource },
    ]),
    ['prompt=consent', { prompt: 'consent' }],
    ['unknown parameters', { nonce: 'x', max_age: '0', audience: 'x', ui_locales: 'de' }],
  ])('a request with %s gets the form', async (_, changes) => {
    const { status, text, headers } = await open(stack.begin(withBase(changes)).url);
    expect([status, headers.get('location')]).toEqual([200, null]);
    expect(text).toContain('name="email"');
  });
});

describe('other methods', () => {
  test('get 405, and OPTIONS lists the allowed ones', async () => {
    const url = stack.begin().url.href;
    const post = await fetch(url, { method: 'POST', redirect: 'manual' });
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
    const options = await fetch(url, { method: 'OPTIONS' });
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET, HEAD, OPTIONS']);
    expect(options.headers.get('access-control-allow-origin')).toBeNull();
  });
});

describe('prompt', () => {
  test.each([
    [undefined, null],
    ['consent', null],
    ['login', 'login'],
    ['select_account', 'select_account'],
    ['select_account consent login something', 'login select_account'],
  ])('%j reaches the identity provider as %j', async (prompt, expected) => {
    const { url } = stack.begin({ prompt, login_hint: 'somebody@example.com' });
    const { headers } = await new Browser().send(url);
    const upstream = new URL(headers.get('location') ?? '');
    expect(upstream.href.startsWith(`${stack.issuer}/authorize?`)).toBe(true);
    expect(upstream.searchParams.get('prompt')).toBe(expected);
  });

  test('login needs a new sign-in of a user who is signed in at the identity provider', async () => {
    const { email, password } = await stack.newPerson();
    const browser = new Browser();
    await stack.signIn({ email, password, userId: 0n, shopIds: [] }, { browser });
    const withoutPrompt = await browser.open(stack.begin({ login_hint: email }).url, REDIRECT);
    expect(withoutPrompt.url.searchParams.has('code')).toBe(true);
    const again = stack.begin({ login_hint: email, prompt: 'login' });
    const page = await browser.open(again.url, REDIRECT);
    expect(page.text).toContain('name="password"');
    const shown = await browser.submit(page, { email, password }, REDIRECT);
    expect(shown.url.searchParams.has('code')).toBe(true);
  });

  test.each(['select_account', 'select_account login'])(
    '%s is sent again without select_account if the identity provider does not support it',
    async (prompt) => {
      const person = await stack.newPerson();
      const shown = await stack.signIn(person, { begun: stack.begin({ prompt }) });
      expect(shown.url.href.startsWith(`${REDIRECT}?code=`)).toBe(true);
    },
  );

  test('consent always shows the consent page', async () => {
    const { email, password } = await stack.newPerson();
    const browser = new Browser();
    const begun = stack.begin({ prompt: 'consent', login_hint: email });
    const form = await browser.open(begun.url, REDIRECT);
    const page = await browser.submit(form, { email, password }, REDIRECT);
    expect(page.text).toContain('/allow"');
    const shown = await browser.submit(page, {}, REDIRECT);
    expect(shown.url.href.startsWith(`${REDIRECT}?code=`)).toBe(true);
  });
});

describe('the allowance of a user', () => {
  const LOOPBACK = 'http://127.0.0.1:51234/callback';
  let migrator: pg.Client;
  beforeAll(async () => {
    migrator = new pg.Client({ connectionString: stack.under.database.migratorUrl });
    await migrator.connect();
    // PostgreSQL raises this error while it is starting.
    await migrator.query(
      `create function gateway.fail() returns trigger language plpgsql
     as $$ begin raise exception 'starting up' using errcode = '57P03'; end $$`,
    );
  });
  afterAll(() => migrator.end());

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
      await expectTokens(
        consent,
        await consent.browser.open(consent.allow, LOOPBACK, consent.form),
      );
      expect(await grantsOf(consent)).toEqual([1, 1]);
    });

    test('creates one grant when sent many times concurrently', async () => {
      const consent = await atConsentPage();
      const sent = Array.from({ length: 8 }, () =>
        consent.browser.send(consent.allow, consent.form),
      );
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
});
