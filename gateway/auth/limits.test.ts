import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { createLogger } from '../../services/platform/log.ts';
import { createPool } from '../../services/platform/postgres.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { createLeasedLimit, type LeasedLimit } from './leased-limit.ts';
import { createRateLimit, rejectedFor } from './rate-limits.ts';

const logger = createLogger({ service: 'test', level: 'silent' });
/** Long enough that a pause of the machine does not make a replica count alone. Milliseconds. */
const LONG_TIMEOUT = { timeoutMs: 30_000 };
let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase('gateway');
});
afterAll(() => database.drop());

async function admitted(
  limits: readonly LeasedLimit[],
  key: string,
  limit: number,
  requests: number,
) {
  const admissions = await Promise.all(
    Array.from({ length: requests }, (_, at) => limits[at % limits.length]?.take(key, limit)),
  );
  return admissions.filter((admission) => admission?.admitted).length;
}

describe('the limit of REST callers', () => {
  test.each([1, 5, 7, 300])('one replica admits exactly %d', async (limit) => {
    const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
    expect(await admitted([replica], `one-${limit}`, limit, limit * 2 + 10)).toBe(limit);
  });

  test('several replicas together admit exactly the limit of a busy key', async () => {
    const replicas = [1, 2, 3].map(() => createLeasedLimit(database.pool, logger, LONG_TIMEOUT));
    expect(await admitted(replicas, 'three', 100, 600)).toBe(100);
  });

  test('a request costs its points, but at most the points of a full window', async () => {
    const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
    expect(await replica.take('points', 30, 20)).toEqual({ admitted: true });
    expect(await replica.take('points', 30, 10)).toEqual({ admitted: true });
    expect(await replica.take('points', 30)).toMatchObject({ admitted: false });
    expect(await replica.take('large', 5, 500)).toEqual({ admitted: true });
    expect(await replica.take('large', 5)).toMatchObject({ admitted: false });
  });

  test('a request that costs more than the rest of a window uses up the rest', async () => {
    const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
    expect(await replica.take('rest', 30, 20)).toEqual({ admitted: true });
    expect(await replica.take('rest', 30, 11)).toMatchObject({ admitted: false });
    expect(await replica.take('rest', 30)).toMatchObject({ admitted: false });
  });

  test('points are counted over all replicas', async () => {
    const replicas = [1, 2, 3].map(() => createLeasedLimit(database.pool, logger, LONG_TIMEOUT));
    const admissions = await Promise.all(
      Array.from({ length: 60 }, (_, at) => replicas[at % 3]?.take('points of three', 100, 5)),
    );
    expect(admissions.filter((admission) => admission?.admitted).length).toBeLessThanOrEqual(20);
  });

  test('a rejected request gets the time until the end of the window', async () => {
    const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
    await replica.take('again', 1);
    const rejected = await replica.take('again', 1);
    expect(rejected).toEqual({ admitted: false, retryAfterS: expect.any(Number) });
    expect(!rejected.admitted && rejected.retryAfterS).toBeGreaterThanOrEqual(1);
    expect(!rejected.admitted && rejected.retryAfterS).toBeLessThanOrEqual(60);
  });

  test.each([
    [60_000, 60],
    [1_001, 2],
    [1, 1],
    [0, 1],
    [-5, 1],
  ])('with %d ms left, Retry-After is %d whole seconds, at least 1', (ms, retryAfterS) => {
    expect(rejectedFor(ms)).toEqual({ admitted: false, retryAfterS });
  });

  test('keys do not share a window', async () => {
    const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
    await replica.take('a', 1);
    expect(await replica.take('b', 1)).toEqual({ admitted: true });
  });

  test('without a database a replica counts alone', async () => {
    const unreachable = createPool('postgres://nobody@127.0.0.1:1/none');
    const replica = createLeasedLimit(unreachable, logger);
    expect(await admitted([replica], 'alone', 20, 50)).toBe(20);
    await unreachable.end();
  });

  test('without a database a replica admits the limit once in a window of a day, and counts it later', async () => {
    const state = { isAvailable: false };
    const unreachable = createPool('postgres://nobody@127.0.0.1:1/none');
    const pool = new Proxy(database.pool, {
      get(available, name) {
        const source = state.isAvailable ? available : unreachable;
        const member: unknown = Reflect.get(source, name);
        return typeof member === 'function' ? member.bind(source) : member;
      },
    });
    const options = { ...LONG_TIMEOUT, name: 'day', windowS: 86_400 };
    const replica = createLeasedLimit(pool, logger, options);
    const now = jest.spyOn(Date, 'now');
    const start = Date.now();
    const moveTo = (minutes: number) => now.mockReturnValue(start + minutes * 60_000);
    try {
      moveTo(0);
      expect(await replica.take('day', 20, 15)).toEqual({ admitted: true });
      // Two minutes later the window of a day still counts: only 5 points are left.
      moveTo(2);
      expect(await replica.take('day', 20, 5)).toEqual({ admitted: true });
      expect(await replica.take('day', 20)).toEqual({ admitted: false, retryAfterS: 60 });
      state.isAvailable = true;
      expect(await replica.take('day', 20)).toMatchObject({ admitted: false });
      moveTo(4);
      expect(await replica.take('day', 20)).toMatchObject({ admitted: false });
      const other = createLeasedLimit(database.pool, logger, options);
      expect(await other.take('day', 20)).toMatchObject({ admitted: false });
      // The next window is a new one.
      moveTo(2 * 24 * 60);
      expect(await replica.take('day', 20)).toEqual({ admitted: true });
    } finally {
      now.mockRestore();
      await unreachable.end();
    }
  });
});

describe('an exact limit', () => {
  test('is counted over all replicas', async () => {
    const options = { pool: database.pool, name: 'counted', points: 10, windowS: 60 };
    const replicas = [createRateLimit(options), createRateLimit(options)];
    const admissions = await Promise.all(
      Array.from({ length: 40 }, (_, at) => replicas[at % 2]?.take('1.2.3.4')),
    );
    expect(admissions.filter((admission) => admission?.admitted)).toHaveLength(10);
  });

  test('counts alone without a database', async () => {
    const unreachable = createPool('postgres://nobody@127.0.0.1:1/none');
    const limit = createRateLimit({ pool: unreachable, name: 'alone', points: 2, windowS: 60 });
    const admissions = [await limit.take('x'), await limit.take('x'), await limit.take('x')];
    expect(admissions.map(({ admitted }) => admitted)).toEqual([true, true, false]);
    await unreachable.end();
  });
});
