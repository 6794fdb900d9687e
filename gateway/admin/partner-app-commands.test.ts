import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type AdminBench, startAdminBench } from '../../test/kit/gateway/admin-bench.ts';
import { PUBLIC_URL } from '../../test/kit/gateway/run-admin.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { installApp, listApps } from '../tenancy/installations.ts';
import { isPartnerSecret } from '../tenancy/partner-apps.ts';

let bench: AdminBench;
beforeAll(async () => {
  bench = await startAdminBench();
});
afterAll(() => bench.stop());

const REDIRECT = 'https://app.example.com/callback';
const OPTIONS = ['--name', 'Parcels', '--redirect-uri', REDIRECT, '--scopes', 'labels:write'];

/** Registers an app, and returns its id and secret. */
async function create(...more: string[]): Promise<{ clientId: string; secret: string }> {
  const lines = await bench.admin('partner-app', 'create', ...OPTIONS, ...more);
  expect(lines.at(-1)).toBe(`authorization server: ${PUBLIC_URL}/partners`);
  const printed = (name: string) =>
    lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? '';
  return { clientId: printed('client id'), secret: printed('client secret') };
}

test('an app is registered with a secret that is stored as a hash only, and listed', async () => {
  const { clientId, secret } = await create('--redirect-uri', 'http://127.0.0.1:7777/callback');
  expect(secret).toMatch(/^rms_app_[\w-]{43}$/);
  expect(await isPartnerSecret(bench.pool, clientId, secret)).toBe(true);
  const { rows } = await bench.pool.query('select * from partner_app_secrets');
  expect(JSON.stringify(rows)).not.toContain(secret);
  const lines = await bench.admin('partner-app', 'list');
  expect(lines.find((line) => line.startsWith(clientId))).toBe(
    `${clientId}  active  0 shops  labels:write  ${REDIRECT},http://127.0.0.1:7777/callback  Parcels`,
  );
});

test('a public app has no secret', async () => {
  expect((await create('--public')).secret).toBe('');
});

test.each([
  ['--redirect-uri', 'http://app.example.com/callback'],
  ['--redirect-uri', 'https://app.example.com/callback#a'],
  ['--redirect-uri', 'javascript:alert(1)'],
  ['--scopes', 'carts'],
  ['--website', 'http://app.example.com'],
  ['--logo', 'data:image/png;base64,AAAA'],
  ['--name', ' '],
])('%s %s is rejected', async (option, value) => {
  await expect(bench.admin('partner-app', 'create', ...OPTIONS, option, value)).rejects.toThrow();
});

test('a secret is rotated: the former one works for the overlap', async () => {
  const { clientId, secret } = await create();
  const rotate = async (...more: string[]) => {
    const [line = ''] = await bench.admin(
      'partner-app',
      'rotate',
      '--client-id',
      clientId,
      ...more,
    );
    return line.replace('client secret: ', '');
  };
  const works = (text: string) => isPartnerSecret(bench.pool, clientId, text);
  const second = await rotate();
  expect([await works(secret), await works(second)]).toEqual([true, true]);
  await bench.pool.query(
    "update partner_app_secrets set expires_at = expires_at - interval '24 hours' where expires_at is not null",
  );
  expect([await works(secret), await works(second)]).toEqual([false, true]);
  const third = await rotate('--overlap-hours', '0');
  expect([await works(second), await works(third)]).toEqual([false, true]);
});

test('an app is removed from every shop; a repeat changes nothing', async () => {
  const { clientId } = await create();
  const shopId = BigInt(await bench.hatShop());
  const issuer = `${PUBLIC_URL}/partners`;
  await installApp(bench.pool, { shopId, issuer, clientId, by: TEST_AUTHOR });
  const remove = () => bench.admin('partner-app', 'remove', '--client-id', clientId);
  expect(await remove()).toEqual(['removed, from 1 shops']);
  expect(await remove()).toEqual(['removed, from 0 shops']);
  expect(await listApps(bench.pool, { shopId })).toEqual([]);
  await expect(bench.admin('partner-app', 'rotate', '--client-id', clientId)).rejects.toThrow(
    'there is no app',
  );
});
