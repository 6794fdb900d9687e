import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Queryable } from '../../services/platform/postgres.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { createApiKeyCheck } from './api-key-check.ts';
import { newKey, parseKey } from './key-format.ts';
import { createKnownKeyIds } from './known-key-ids.ts';

let under: TestGateway;

beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

/** The test's database, which counts its statements. */
function counting(): { db: Queryable; statements(): number } {
  let count = 0;
  const db: Queryable = new Proxy(under.database.pool, {
    get(pool, name) {
      const member: unknown = Reflect.get(pool, name);
      if (typeof member !== 'function') return member;
      if (name === 'query') count += 1;
      return member.bind(pool);
    },
  });
  return { db, statements: () => count };
}

const idOf = (key: string): string => parseKey(key)?.keyId ?? '';

describe('known key ids', () => {
  test('contain every existing key, and no invented id', async () => {
    const keys = [under.key, await under.newKey(), await under.newKey()];
    const ids = createKnownKeyIds(under.database.pool);
    for (const key of keys) expect(await ids.mayExist(idOf(key))).toBe(true);
    for (let at = 0; at < 100; at += 1) {
      expect(await ids.mayExist(newKey().keyId)).toBe(false);
    }
  });

  test('contain a new key within five seconds', async () => {
    const ids = createKnownKeyIds(under.database.pool);
    await ids.mayExist('none');
    const id = idOf(await under.newKey());
    await until(() => ids.mayExist(id), 5_000, 100);
  });

  test('are read in pages, even if many keys have the same creation time', async () => {
    const shopId = await under.newShop();
    await under.database.pool.query(
      `insert into api_keys (shop_id, key_id, secret_hash, scopes, description)
       select $1, lpad(n::text, 12, 'a'), sha256('x'), '{}', 'many' from generate_series(1, 25000) n`,
      [shopId],
    );
    const ids = createKnownKeyIds(under.database.pool);
    for (const n of ['1', '10000', '10001', '25000']) {
      expect(await ids.mayExist(n.padStart(12, 'a'))).toBe(true);
    }
  });
});

/** The statements of one read. It reads again all 25,000 keys of the test above, because they have one creation time. */
const PAGES = 3;

describe('a blocked address', () => {
  test('causes no statements for invented keys, and its valid key passes', async () => {
    const { db, statements } = counting();
    const check = createApiKeyCheck(db, () => {});
    const valid = await under.newKey();
    expect(await check.check(newKey().text, { isBlocked: true })).toBeUndefined();
    const before = statements();
    const startedAt = performance.now();
    const invented = Array.from({ length: 2_000 }, () =>
      check.check(newKey().text, { isBlocked: true }),
    );
    expect(new Set(await Promise.all(invented))).toEqual(new Set([undefined]));
    // New keys are read at most once every two seconds, for any number of requests.
    const reads = Math.floor((performance.now() - startedAt) / 2_000) + 1;
    expect(statements() - before).toBeLessThanOrEqual(PAGES * reads);
    expect(await check.check(valid, { isBlocked: true })).toMatchObject({ shopId: 1n });
  });

  test('for another address, an invented key is read from the database, and a new key is accepted immediately', async () => {
    const { db, statements } = counting();
    const check = createApiKeyCheck(db, () => {});
    await check.check(newKey().text);
    expect(statements()).toBe(1);
    expect(await check.check(await under.newKey())).toMatchObject({ shopId: 1n });
  });
});
