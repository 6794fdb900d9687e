import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RestockMode } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { invalidField } from '../../services/platform/errors.ts';
import { newKeyringText, parseKeyring } from '../../services/platform/keyring.ts';
import { createLogger } from '../../services/platform/log.ts';
import { type AdminBench, startAdminBench } from '../../test/kit/gateway/admin-bench.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';
import { startGrantUsage } from '../auth/key-usage.ts';
import { storeGrant } from '../oauth/issue.ts';
import { createOAuthKeys } from '../oauth/keys.ts';
import { openAdminContext } from './admin-context.ts';

let bench: AdminBench;

beforeAll(async () => {
  bench = await startAdminBench();
});
afterAll(() => bench?.stop());

const admin = (...words: string[]) => bench.admin(...words);

describe('shop', () => {
  test('create is idempotent, and list shows the shop', async () => {
    const id = await bench.hatShop();
    expect(await bench.hatShop()).toBe(id);
    expect(await admin('shop', 'list')).toContain(`${id}  EUR  Hats`);
  });

  test('create accepts each current currency, and a withdrawn one only of a shop that has it', async () => {
    const create = (name: string, currency: string) =>
      admin('shop', 'create', '--name', name, '--currency', currency, '--owner-email', 'o@x.test');
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
    await expect(admin('shop', 'restock', ...shop, '--mode', 'always')).rejects.toThrow('Allowed');
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

  test('an expired key is listed as expired', async () => {
    const shop = ['--shop', await bench.hatShop()];
    const expired = ['--scopes', 'returns', '--expires', '2026-01-01T00:00:00Z'];
    const [key = ''] = await admin('key', 'create', ...shop, ...expired);
    expect(await admin('key', 'list', ...shop)).toContain(
      `${key.split('_')[1]}  expired  returns  `,
    );
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
    const detail = { user_id: `${userId}`, client_id: clientId, app: 'claude.ai', why: 'revoked' };
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
    await expect(openAdminContext({}, '/nowhere/stack.json')).rejects.toThrow(/no file.*npm start/);
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
