import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type AdminBench, startAdminBench } from '../../test/kit/gateway/admin-bench.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { parseKey } from '../auth/key-format.ts';
import { recordAudit } from '../tenancy/audit.ts';

let bench: AdminBench;

beforeAll(async () => {
  bench = await startAdminBench();
});
afterAll(() => bench?.stop());

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
      return all.length === 2 && all;
    });
    const name = String.raw`"ERP\ufffd\[2J\ufffd\\"x\\""`;
    const start = `api_key ${parseKey(key)?.keyId} ${name}  2001:db8::/64  ${requestId}`;
    for (const [nth, phase] of ['done', 'asked'].entries()) {
      const line = `^${TIME}  ${start}  rest\\.createCart  -  ${phase}$`;
      expect(lines[nth]).toMatch(new RegExp(line, 'u'));
    }
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
