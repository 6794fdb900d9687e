import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createApiKey } from '../../gateway/tenancy/api-keys.ts';
import { SCOPES } from '../../services/contract/scopes.ts';
import { createTestDatabase, type TestDatabase } from '../kit/database.ts';
import { startFakeBackend } from '../kit/gateway/fake-backend.ts';
import { TEST_AUTHOR } from '../kit/gateway/test-gateway.ts';
import { until } from '../kit/until.ts';
import { type AttackResponse, ask, inflate, repeat, sendHalfHeaders } from './attacks.ts';
import { startGatewayInCgroup } from './gateway-in-cgroup.ts';
import type { ProcessInCgroup } from './process-in-cgroup.ts';

/**
 * Duration of the attack. In CI it is short, and the test asserts only results. Seconds.
 * `ATTACK_SECONDS=60 npm run test:security -- slow-and-inflating` also prints how long other clients waited.
 */
const ATTACK_S = Number(process.env.ATTACK_SECONDS ?? 5);
const SLOW_HEADERS_PER_S = 50;
const PARALLEL_INFLATING = 30;
const INFLATING_EVERY_MS = 1_000;
const ATTACKERS = 10;
/** Files that the process opens temporarily: connections to the database, files that it reads. */
const SPARE_FILES = 30;

let database: TestDatabase;
let backend: Awaited<ReturnType<typeof startFakeBackend>>;
let gateway: ProcessInCgroup;
/** Keys of separate shops: an attacker with the usual limits, other clients, and attackers without a rate limit. */
let attacker: string;
let other: string;
let unlimited: readonly string[];

beforeAll(async () => {
  database = await createTestDatabase('gateway');
  backend = await startFakeBackend();
  const newKey = async (limit = {}): Promise<string> => {
    const { rows } = await database.pool.query<{ id: bigint }>(
      `with founder as (
         insert into users (email) values (gen_random_uuid() || '@example.com') returning id
       )
       insert into shops (name, currency, founder_id) select 'Shop', 'GBP', id from founder
       returning id`,
    );
    const shopId = rows[0]?.id ?? 0n;
    const key = { shopId, scopes: SCOPES, description: 'Test', by: TEST_AUTHOR, ...limit };
    return (await createApiKey(database.pool, key)).text;
  };
  const noLimit = { restPerMinute: 1_000_000 };
  attacker = await newKey();
  other = await newKey(noLimit);
  unlimited = await Promise.all(Array.from({ length: ATTACKERS }, () => newKey(noLimit)));
  gateway = await startGatewayInCgroup({
    databaseUrl: database.url,
    targets: backend.targets,
    serviceToken: 'test-token-of-32-characters-or-more',
    env: { SHOP_MIB_PER_DAY: '1000000' },
  });
});
afterAll(async () => {
  await gateway.stop();
  await backend.stop();
  await database.drop();
});

const read = () => ask(gateway, { key: other, method: 'GET', path: '/api/v1/webhooks' });
const write = () =>
  ask(gateway, {
    key: other,
    method: 'POST',
    path: '/api/v1/cart',
    headers: { 'content-type': 'application/json' },
    body: Buffer.from('{"cart":[1]}'),
  });
const statusesOf = (answers: readonly AttackResponse[]) => [
  ...new Set(answers.map((one) => one.status)),
];
const quantile = (answers: readonly AttackResponse[], part: number): number => {
  const sorted = answers.map(({ ms }) => ms).toSorted((a, b) => a - b);
  return Math.round(sorted[Math.floor(part * (sorted.length - 1))] ?? Number.NaN);
};
const mebibytes = (bytes: number): number => Math.round(bytes / 2 ** 20);
const report = (what: string, answers: readonly AttackResponse[]): void => {
  if (process.env.ATTACK_SECONDS === undefined) return;
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((part) => quantile(answers, part));
  process.stdout.write(
    `${what}: ${answers.length} answers, p50 ${p50} ms, p95 ${p95}, p99 ${p99}\n`,
  );
};

/** Other clients call for a while. @returns their responses. */
async function others(ms: number): Promise<AttackResponse[]> {
  const calls = [repeat(read, 50), repeat(write, 50)];
  await new Promise((resolve) => setTimeout(resolve, ms));
  await Promise.all(calls.map((call) => call.stop()));
  return calls.flatMap(({ answers }) => answers);
}

describe('a gateway with the memory limit of its manifest', () => {
  test(
    'serves other clients during half-sent headers and compressed bodies, and frees all memory and connections',
    async () => {
      report('others, undisturbed', await others(Math.min(ATTACK_S, 10) * 1_000));
      const filesBefore = gateway.openFiles();
      const slow = sendHalfHeaders(gateway, SLOW_HEADERS_PER_S);
      const inflating = Array.from({ length: PARALLEL_INFLATING }, (_, nth) =>
        repeat(() => inflate(gateway, attacker, nth), INFLATING_EVERY_MS),
      );
      const disturbed = await others(ATTACK_S * 1_000);
      slow.stop();
      await Promise.all(inflating.map((one) => one.stop()));
      const attacks = inflating.flatMap(({ answers }) => answers);
      report('others, under attack', disturbed);
      report(`the attacker, peak ${mebibytes(gateway.peakBytes())} MiB`, attacks);

      expect(gateway.isRunning()).toBe(true);
      expect(statusesOf(disturbed)).toEqual([200]);
      expect([200, 429, 503]).toEqual(expect.arrayContaining(statusesOf(attacks)));
      for (const { status, retryAfter } of attacks) {
        if (status === 429 || status === 503) expect(retryAfter).toMatch(/^[1-9]\d*$/);
      }
      expect(gateway.peakBytes()).toBeLessThanOrEqual(gateway.limitBytes);
      // The attacker does not disconnect. The gateway closes the connections that it rejected.
      await until(() => gateway.openFiles() <= filesBefore + SPARE_FILES, 60_000, 250);
      slow.close();
    },
    180_000 + ATTACK_S * 2_000,
  );

  test.each([
    ['one key', 1, 429],
    ['ten keys', ATTACKERS, 503],
  ])(
    '200 concurrent compressed bodies of %s crash no process, and other clients are served',
    async (_, keys, refused) => {
      const bodies = Array.from({ length: 200 }, (_, nth) =>
        inflate(gateway, unlimited[nth % keys] ?? '', nth),
      );
      const disturbed = repeat(write, 10);
      const attacks = await Promise.all(bodies);
      await disturbed.stop();
      report(`200 at once of ${keys} keys, peak ${mebibytes(gateway.peakBytes())} MiB`, attacks);
      expect(gateway.isRunning()).toBe(true);
      expect(statusesOf(disturbed.answers)).toEqual([200]);
      expect(statusesOf(attacks)).toContain(refused);
      expect([200, 429, 503]).toEqual(expect.arrayContaining(statusesOf(attacks)));
      expect(gateway.peakBytes()).toBeLessThanOrEqual(gateway.limitBytes);
    },
  );

  test('stops in order while half-sent headers are open', async () => {
    const slow = sendHalfHeaders(gateway, 200);
    await until(() => slow.opened() > 100);
    slow.stop();
    expect(await gateway.stop()).toBe(0);
    slow.close();
  });
});
