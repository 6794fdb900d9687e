import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type AdminBench, HAT_SHOP, startAdminBench } from '../../test/kit/gateway/admin-bench.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';

let bench: AdminBench;

beforeAll(async () => {
  bench = await startAdminBench();
});
afterAll(() => bench?.stop());

const admin = (...words: string[]) => bench.admin(...words);

describe('shop sandbox', () => {
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
