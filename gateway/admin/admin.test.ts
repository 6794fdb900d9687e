import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RestockMode } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SCOPE_RULES, SCOPES } from '../../services/contract/scopes.ts';
import { newKeyringText, parseKeyring } from '../../services/platform/security/keyring.ts';
import { createLogger } from '../../services/platform/telemetry/log.ts';
import { invalidField } from '../../services/platform/values/errors.ts';
import { type AdminBench, HAT_SHOP, startAdminBench } from '../../test/kit/gateway/admin-bench.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { parseKey } from '../auth/key-format.ts';
import { startGrantUsage } from '../auth/usage.ts';
import { storeGrant } from '../oauth/tokens/issue.ts';
import { createOAuthKeys } from '../oauth/tokens/keys.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { openAdminContext } from './admin-context.ts';
import { adminProgram } from './commands.ts';
import { explain } from './explain.ts';

let bench: AdminBench;
beforeAll(async () => {
  bench = await startAdminBench();
});
afterAll(() => bench.stop());

describe('admin commands', () => {
  const admin = (...words: string[]) => bench.admin(...words);

  describe('shop', () => {
    test('create is idempotent, and list shows the shop', async () => {
      const id = await bench.hatShop();
      expect(await bench.hatShop()).toBe(id);
      expect(await admin('shop', 'list')).toContain(`${id}  EUR  Hats`);
    });

    test('create accepts each current currency, and a withdrawn one only of a shop that has it', async () => {
      const create = (name: string, currency: string) =>
        admin(
          'shop',
          'create',
          '--name',
          name,
          '--currency',
          currency,
          '--owner-email',
          'o@x.test',
        );
      const [made = ''] = await create('Florin', 'XCG');
      expect(await admin('shop', 'list')).toContain(`${/\d+/.exec(made)?.[0]}  XCG  Florin`);
      await expect(create('Lev', 'BGN')).rejects.toThrow('was withdrawn from ISO 4217: use the');
      await expect(create('None', 'ABC')).rejects.toThrow('must be an ISO 4217 code');
      await create('Old lev', 'EUR');
      await bench.pool.query(`update shops set currency = 'BGN' where name = 'Old lev'`);
      expect(await create('Old lev', 'BGN')).toEqual([expect.stringContaining('"Old lev" (BGN)')]);
    });
  });

  describe('shop restock', () => {
    test('sets and shows how goods return to stock', async () => {
      let restockMode: RestockMode = RestockMode.OFF;
      Object.assign(bench.backend.services.returns, {
        getSettings: () => ({ settings: { restockMode } }),
        updateSettings: ({ settings }: { settings: { restockMode: RestockMode } }) => {
          restockMode = settings.restockMode;
          return { settings };
        },
      });
      const shop = ['--shop', await bench.hatShop()];
      expect(await admin('shop', 'restock', ...shop)).toEqual(['off']);
      expect(await admin('shop', 'restock', ...shop, '--mode', 'provider')).toEqual([
        `shop ${shop[1]} restocks: provider`,
      ]);
      expect(restockMode).toBe(RestockMode.PROVIDER);
      expect(await admin('shop', 'restock', ...shop)).toEqual(['provider']);
      await expect(admin('shop', 'restock', ...shop, '--mode', 'always')).rejects.toThrow(
        'Allowed',
      );
      const { rows } = await bench.pool.query(
        `select detail from audit_log where shop_id = $1 and action = 'shop.restock.set'`,
        [shop[1]],
      );
      expect(rows).toEqual([{ detail: { mode: 'provider' } }]);
      bench.backend.reset();
    });
  });

  describe('payload-version', () => {
    test('set sends the version to the service and audits it; show reads it', async () => {
      const id = await bench.hatShop();
      const set: unknown[] = [];
      Object.assign(bench.backend.services.webhooks, {
        setPayloadVersion: ({ shopId: shop, version }: { shopId: bigint; version: string }) => {
          set.push([String(shop), version]);
          return { version };
        },
      });
      const shop = ['--shop', id];
      expect(await admin('payload-version', 'set', ...shop, '2026-10')).toEqual([
        `shop ${id}: payloads of events from now on are shaped for 2026-10`,
      ]);
      expect(set).toEqual([[id, '2026-10']]);
      expect(await admin('payload-version', 'show', ...shop)).toEqual(['2026-07']);
      const { rows } = await bench.pool.query(
        `select subject, detail from audit_log where shop_id = $1 and action = 'payload_version.set'`,
        [id],
      );
      expect(rows).toEqual([{ subject: id, detail: { version: '2026-10' } }]);
      bench.backend.reset();
    });

    test('an invalid or unsupported version and a missing shop are rejected', async () => {
      const id = await bench.hatShop();
      for (const version of ['unstable', 'v1', '2026-08', '']) {
        const call = admin('payload-version', 'set', '--shop', id, version);
        await expect(call).rejects.toThrow('must be one of 2026-07, 2026-10');
      }
      Object.assign(bench.backend.services.webhooks, {
        setPayloadVersion: () => {
          throw invalidField('version', 'must be one of 2026-10');
        },
      });
      const sunset = admin('payload-version', 'set', '--shop', id, '2026-07');
      await expect(sunset).rejects.toThrow('version must be one of 2026-10');
      bench.backend.reset();
      const absent = admin('payload-version', 'set', '--shop', '999999', '2026-10');
      await expect(absent).rejects.toThrow('no shop 999999');
    });
  });

  describe('key', () => {
    test('a created key works until it is revoked', async () => {
      const shop = ['--shop', await bench.hatShop()];
      const scopes = ['--scopes', 'returns, carts', '--description', 'ERP'];
      const [key = ''] = await admin('key', 'create', ...shop, ...scopes);
      const send = restClient(bench.gateway);
      expect((await send({ path: '/api/v1/cart', json: { cart: [1] }, key })).status).toBe(200);
      const id = key.split('_')[1];
      expect(await admin('key', 'list', ...shop)).toEqual([`${id}  active  returns,carts  ERP`]);
      expect(await admin('key', 'revoke', ...shop, key)).toEqual(['revoked']);
      expect(await admin('key', 'list', ...shop)).toEqual([`${id}  revoked  returns,carts  ERP`]);
    });

    test('the help of create has a sentence about each scope', () => {
      const program = adminProgram(
        async () => {},
        () => {},
      );
      const key = program.commands.find((command) => command.name() === 'key');
      const create = key?.commands.find((command) => command.name() === 'create');
      const help: string[] = [];
      create?.configureOutput({ writeOut: (text) => void help.push(text) }).outputHelp();
      for (const scope of SCOPES) {
        expect(help.join('')).toContain(`${scope}: ${SCOPE_RULES[scope].text}`);
      }
    });

    test('an expired key is listed as expired', async () => {
      const shop = ['--shop', await bench.hatShop()];
      const until = ['--scopes', 'returns', '--expires', '2200-01-01T00:00:00Z'];
      const [key = ''] = await admin('key', 'create', ...shop, ...until);
      await bench.pool.query(
        "update api_keys set expires_at = now() - interval '1 s' where key_id = $1",
        [key.split('_')[1]],
      );
      expect(await admin('key', 'list', ...shop)).toContain(
        `${key.split('_')[1]}  expired  returns  `,
      );
    });

    test('create with an expiry in the past makes no key, and says what to do', async () => {
      const shop = ['--shop', await bench.hatShop()];
      const before = await admin('key', 'list', ...shop);
      const expired = ['--scopes', 'returns', '--expires', '2026-01-01T00:00:00Z'];
      await expect(admin('key', 'create', ...shop, ...expired)).rejects.toThrow(
        /--expires.*must be in the future: it is .* now\. Leave the option out/,
      );
      expect(await admin('key', 'list', ...shop)).toEqual(before);
    });

    test.each([
      ['--shop', 'x', '--scopes', 'returns'],
      ['--shop', '1', '--scopes', 'everything'],
      ['--shop', '1', '--scopes', 'returns', '--per-minute', '0'],
      ['--shop', '1', '--scopes', 'returns', '--expires', 'tomorrow'],
      ['--shop', '1'],
    ])('create %s %s %s %s is rejected', async (...words) => {
      await expect(admin('key', 'create', ...words)).rejects.toThrow(/must|required/);
    });
  });

  describe('a shop that does not exist', () => {
    test('has no keys to list', async () => {
      await expect(admin('key', 'list', '--shop', '999999')).rejects.toThrow('no shop 999999');
    });
  });

  describe('member', () => {
    test('add and remove', async () => {
      const words = ['--shop', await bench.hatShop(), '--email', 'Ann@Example.com'];
      const [line] = await admin('member', 'add', ...words, '--role', 'analyst');
      expect(line).toMatch(/^user \d+ is analyst of shop \d+$/);
      expect(await admin('member', 'remove', ...words)).toEqual(['removed']);
      await expect(admin('member', 'remove', ...words)).rejects.toThrow('no such member');
    });
  });

  describe('grants', () => {
    test('list shows the connected assistants, and revoke disconnects one', async () => {
      const { pool } = bench;
      const shop = ['--shop', await bench.hatShop()];
      const bob = ['--email', 'bob@example.com', '--role', 'analyst'];
      const [line = ''] = await admin('member', 'add', ...shop, ...bob);
      const userId = BigInt(/^user (\d+)/.exec(line)?.[1] ?? 0);
      const clientId = 'https://claude.ai/oauth/mcp-oauth-client-metadata';
      const grant = { userId, shopId: BigInt(shop[1] ?? 0), clientId, app: 'claude.ai' };
      const id = 'g'.repeat(43);
      await storeGrant(pool, id, grant);
      expect(await admin('grants', 'list', ...shop)).toEqual([
        expect.stringMatching(
          `^${id}  Claude \\(claude.ai\\)  bob@example.com  shop ${grant.shopId} "Hats"  analyst  since .*  never used$`,
        ),
      ]);
      await storeGrant(pool, 'r'.repeat(43), { ...grant, isReadOnly: true });
      expect(await admin('grants', 'list', ...shop)).toContainEqual(
        expect.stringMatching(/^r{43} {2}.* {2}analyst, reading only {2}since /),
      );
      await admin('grants', 'revoke', 'r'.repeat(43));
      const usage = startGrantUsage(pool, createLogger({ service: 'test', level: 'silent' }));
      usage.used(id);
      await usage.stop();
      const [used] = await admin('grants', 'list');
      expect(used).toMatch(/ {2}last used 20\d\d-.*Z$/);
      expect(await admin('grants', 'revoke', id)).toEqual(['revoked']);
      await expect(admin('grants', 'revoke', id)).rejects.toThrow('no such active grant');
      expect(await admin('grants', 'list', ...shop)).toEqual([]);
      const { rows } = await pool.query(
        'select action, detail from audit_log where shop_id = $1 and subject = $2',
        [grant.shopId, id],
      );
      const detail = {
        user_id: `${userId}`,
        client_id: clientId,
        app: 'claude.ai',
        why: 'revoked',
      };
      expect(rows).toEqual([{ action: 'assistant.disconnected', detail }]);
    });
  });

  describe('app', () => {
    test('install and remove', async () => {
      const issuer = ['--issuer', 'https://auth.example.com'];
      const words = ['--shop', await bench.hatShop(), ...issuer, '--client-id', 'erp'];
      expect(await admin('app', 'install', ...words)).toEqual(['installed']);
      expect(await admin('app', 'remove', ...words)).toEqual(['removed']);
    });
  });

  describe('the admin context', () => {
    test('without a stack or an environment, the error says what to do', async () => {
      await expect(openAdminContext({}, '/nowhere/stack.json')).rejects.toThrow(
        /no file.*npm start/,
      );
      await expect(openAdminContext({}, '/')).rejects.toThrow('/ cannot be read (EISDIR');
    });
    test('the error has only the variables that the command needs', async () => {
      await expect(openAdminContext({ DATABASE_URL: 'x' })).rejects.toThrow(/DATABASE_URL/);
      const env = { DATABASE_URL: 'postgres://a@b/c', RETURNS_TARGET: '' };
      const found = await openAdminContext(env);
      expect(() => found.services).toThrow(/DESTINATIONS_TARGET.*RETURNS_TARGET.*WEBHOOKS_TARGET/s);
      await found.close();
    });
  });

  describe('oauth-key', () => {
    test('after rotate the next token is signed with a new key; list shows both keys', async () => {
      const keys = createOAuthKeys(bench.pool, parseKeyring(newKeyringText()));
      const { kid } = await keys.signing();
      expect(await admin('oauth-key', 'list')).toEqual([expect.stringMatching(`^${kid} .*signs$`)]);
      await admin('oauth-key', 'rotate');
      const [line, ...others] = await admin('oauth-key', 'list');
      expect(line).toMatch(`${kid}`);
      expect([line?.includes('replaced'), others]).toEqual([true, []]);
    });
  });
});

describe('lists of the admin commands', () => {
  const admin = (...words: string[]) => bench.admin(...words);

  const TIME = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;

  /** Creates a shop with two entries of one actor and then two of another. The subjects are 0 to 3. */
  async function shopWithEntries() {
    const shop = await bench.gateway.newShop();
    const actions = ['rest.createCart', 'rest.updateWebhook', 'rest.createCart', 'member.added'];
    for (const [nth, action] of actions.entries()) {
      const actor = { ...TEST_AUTHOR.actor, id: nth < 2 ? 'first' : 'second' };
      await recordAudit(bench.pool, {
        shopId: shop,
        by: { actor, source: '192.0.2.1' },
        action,
        subject: String(nth),
      });
    }
    return {
      shop: String(shop),
      subjects: (lines: readonly string[]) => lines.map((line) => line.split('  ')[5]).join(''),
    };
  }

  describe('audit list', () => {
    test('shows time, actor, address, request id, action, object and outcome of a REST write', async () => {
      const shop = await bench.gateway.newShop();
      const key = await bench.gateway.newKey({ shopId: shop, description: 'ERP\u001b[2J\n"x"' });
      const requestId = randomUUID();
      const headers = { 'x-request-id': requestId, 'x-forwarded-for': '2001:db8::7' };
      await restClient(bench.gateway)({ path: '/api/v1/cart', json: { cart: [1] }, key, headers });
      const lines = await until(async () => {
        const all = await admin('audit', 'list', '--shop', String(shop), '--action', 'rest.*');
        return all.length === 1 && all;
      });
      const name = String.raw`"ERP\ufffd\[2J\ufffd\\"x\\""`;
      const start = `api_key ${parseKey(key)?.keyId} ${name}  2001:db8::/64  ${requestId}`;
      expect(lines[0]).toMatch(new RegExp(`^${TIME}  ${start}  rest\\.createCart  -  done$`, 'u'));
    });

    test('returns the newest entries first, in pages', async () => {
      const { shop, subjects } = await shopWithEntries();
      const list = (...more: string[]) => admin('audit', 'list', '--shop', shop, ...more);
      expect(subjects(await list())).toBe('3210');
      const [first = '', second = '', more = ''] = await list('--limit', '2');
      expect(subjects([first, second])).toBe('32');
      const cursor = /^# more: --cursor (\d+)$/.exec(more)?.[1] ?? '';
      expect(subjects(await list('--limit', '2', '--cursor', cursor))).toBe('10');
      await expect(list('--cursor', '987654321')).rejects.toThrow('no such entry');
    });

    test('filters by time, actor and action', async () => {
      const { shop, subjects } = await shopWithEntries();
      const list = async (...more: string[]) =>
        subjects(await admin('audit', 'list', '--shop', shop, ...more));
      expect(await list('--actor', 'first')).toBe('10');
      expect(await list('--action', 'rest.createCart')).toBe('20');
      expect(await list('--action', 'rest.*', '--actor', 'second')).toBe('2');
      const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
      expect(await list('--since', tomorrow)).toBe('');
      expect(await list('--since', '2026-01-01T00:00:00Z', '--until', tomorrow)).toBe('3210');
      expect(await list('--until', '2026-01-01T00:00:00Z')).toBe('');
    });

    test("shows no other shop's entries, and fails for a shop that does not exist", async () => {
      const other = String(await bench.gateway.newShop());
      expect(await admin('audit', 'list', '--shop', other)).toEqual([]);
      await expect(admin('audit', 'list', '--shop', '987654321')).rejects.toThrow('no shop');
      await expect(admin('audit', 'list')).rejects.toThrow('--shop');
      await expect(admin('audit', 'list', '--shop', other, '--limit', '0')).rejects.toThrow('1 to');
    });
  });

  test('member list shows user id, role, e-mail address and name', async () => {
    const shop = String(await bench.gateway.newShop());
    const email = `${randomUUID()}@example.com`;
    const user = ['--shop', shop, '--email', email];
    const [added = ''] = await admin('member', 'add', ...user, '--role', 'owner', '--name', 'Ada');
    const id = /^user (\d+)/.exec(added)?.[1];
    const [line, ...others] = await admin('member', 'list', '--shop', shop);
    expect(line).toMatch(new RegExp(`^${id}  owner  ${email}  since ${TIME}  Ada$`));
    expect(others).toEqual([]);
  });

  test('a list has one line for each entry, without control characters, which would change the terminal', async () => {
    const shop = await bench.gateway.newShop();
    await bench.gateway.newKey({ shopId: shop, description: 'ERP\u001b[2J\nrevoked' });
    expect(await admin('key', 'list', '--shop', String(shop))).toEqual([
      expect.stringMatching(/ {2}ERP\ufffd\[2J\ufffdrevoked$/),
    ]);
  });

  test('app list shows client id and issuer', async () => {
    const shop = String(await bench.gateway.newShop());
    const app = ['--shop', shop, '--issuer', 'https://id.example.com', '--client-id', 'erp'];
    await admin('app', 'install', ...app);
    const [line, ...others] = await admin('app', 'list', '--shop', shop);
    expect(line).toMatch(new RegExp(`^erp  https://id\\.example\\.com  since ${TIME}$`));
    expect(others).toEqual([]);
    await admin('app', 'remove', ...app);
    expect(await admin('app', 'list', '--shop', shop)).toEqual([]);
  });
});

describe('shop sandbox', () => {
  const admin = (...words: string[]) => bench.admin(...words);

  test('sets and shows whether a shop is a sandbox', async () => {
    let sandbox: boolean | undefined;
    let isMarked = false;
    Object.assign(bench.backend.services.returns, {
      getSettings: () => ({ settings: { sandbox } }),
      updateSettings: ({ settings }: { settings: { sandbox?: boolean } }) => {
        sandbox = settings.sandbox ?? sandbox;
        return { settings };
      },
    });
    Object.assign(bench.backend.services.webhooks, {
      setSandbox: (request: { sandbox: boolean }) => {
        isMarked = request.sandbox;
        return {};
      },
    });
    const created = ['--name', 'Sandbox', '--currency', 'EUR', '--owner-email', 'hats@example.com'];
    const [line = ''] = await admin('shop', 'create', ...created, '--sandbox');
    expect([sandbox, isMarked]).toEqual([true, true]);
    const shop = ['--shop', /^shop (\d+)/.exec(line)?.[1] ?? ''];
    expect(await admin('shop', 'sandbox', ...shop)).toEqual(['on']);
    expect(await admin('shop', 'sandbox', ...shop, '--off')).toEqual([`shop ${shop[1]} is live`]);
    expect([sandbox, isMarked]).toEqual([false, false]);
    await expect(admin('shop', 'sandbox', ...shop, '--on', '--off')).rejects.toThrow('exclude');
    expect(await admin('shop', 'sandbox', ...shop, '--on')).toEqual([
      `shop ${shop[1]} is a sandbox`,
    ]);
    expect([sandbox, isMarked]).toEqual([true, true]);
    expect(await admin('shop', 'list')).toContain(`${shop[1]}  EUR  Sandbox  sandbox`);
    sandbox = false;
    expect(await admin('shop', 'sandbox', ...shop)).toEqual([
      expect.stringMatching(/^incomplete: it moves money, .* again with --on or --off$/),
    ]);
    await bench.hatShop();
    await expect(admin('shop', 'create', ...HAT_SHOP, '--sandbox')).rejects.toThrow('is live');
    const { rows } = await bench.pool.query(
      `select detail from audit_log where shop_id = $1 and action = 'shop.sandbox.set' order by id`,
      [shop[1]],
    );
    expect(rows).toEqual([{ detail: { sandbox: false } }, { detail: { sandbox: true } }]);
    bench.backend.reset();
  });

  test('says which keys stop working, and needs --force for that', async () => {
    const owner = ['--currency', 'EUR', '--owner-email', 'hats@example.com'];
    const [line = ''] = await admin('shop', 'create', '--name', 'Switched', ...owner);
    const shop = ['--shop', /^shop (\d+)/.exec(line)?.[1] ?? ''];
    const [live = ''] = await admin('key', 'create', ...shop, '--scopes', 'carts');
    expect(live).toMatch(/^rms_[a-z0-9]{12}_/);
    await expect(admin('shop', 'sandbox', ...shop, '--on')).rejects.toThrow(
      '1 active keys of the shop would stop working',
    );
    expect(await admin('shop', 'sandbox', ...shop, '--on', '--force')).toEqual([
      `shop ${shop[1]} is a sandbox`,
      '1 active keys of the live shop do not work now; `key create` makes keys of the sandbox shop',
    ]);
    const [test = ''] = await admin('key', 'create', ...shop, '--scopes', 'carts');
    expect(test).toMatch(/^rms_test_[a-z0-9]{12}_/);
    expect((await admin('key', 'list', ...shop)).map((one) => one.slice(14))).toEqual([
      'for live only  carts  ',
      'active  carts  ',
    ]);
    const send = restClient(bench.gateway);
    const statusOf = async (key: string) =>
      (await send({ path: '/api/v1/cart', json: { cart: [1] }, key })).status;
    expect(await statusOf(live)).toBe(401);
    expect(await statusOf(test)).toBe(200);
    await admin('key', 'revoke', ...shop, live);
    await admin('key', 'revoke', ...shop, test);
  });
});

describe('what an operator reads when a command fails', () => {
  test('a database that does not answer, with the reason', () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), {
      code: 'ECONNREFUSED',
    });
    expect(explain(refused)).toBe(
      'the database does not respond (connect ECONNREFUSED 127.0.0.1:5432); is the system running?',
    );
  });

  test('a database with a certificate of a foreign authority', () => {
    const message =
      'the certificate of PostgreSQL was not accepted: no authority of sslrootcert signed it';
    const error = Object.assign(new Error(message), { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' });
    expect(explain(error)).toContain(message);
  });

  test('any other failure, in its own words', () => {
    expect(explain(new Error('there is no shop 7'))).toBe('there is no shop 7');
  });

  test('one line without control characters, which may come from a file', () => {
    expect(explain(new Error('--columns: too big\n  at \u001b[2J\u009b'))).toBe(
      '--columns: too big at \ufffd[2J\ufffd',
    );
  });
});
