import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import {
  createOneTimeRecords,
  type OneTimeRecords,
  purgeOneTimeRecords,
} from './one-time-records.ts';

let db: TestDatabase;
let records: OneTimeRecords;
beforeAll(async () => {
  db = await createTestDatabase('gateway');
  records = createOneTimeRecords(db.pool);
});
afterAll(() => db.drop());

const newId = (): string => randomBytes(32).toString('base64url');
const content = { text: 'a secret text' };

describe('a one-time record', () => {
  test('is found only by its id and kind, and the database contains neither id nor content', async () => {
    const id = newId();
    await records.put('SignIn', id, { content, ttlS: 60 });
    expect(await records.find('SignIn', id)).toEqual({
      content,
      consumedMsAgo: null,
      hasExpired: false,
    });
    expect(await records.find('SignedIn', id)).toBeUndefined();
    expect(await records.find('SignIn', newId())).toBeUndefined();
    const { rows } = await db.pool.query('select oauth_tickets::text as text from oauth_tickets');
    const stored = rows.map(({ text }) => text).join();
    for (const word of [id, content.text]) {
      expect(stored).not.toContain(word);
      expect(stored).not.toContain(Buffer.from(word).toString('hex'));
    }
  });

  test('is returned to one of many concurrent callers of take', async () => {
    const id = newId();
    await records.put('SignIn', id, { content, ttlS: 60 });
    const taken = await Promise.all(Array.from({ length: 16 }, () => records.take('SignIn', id)));
    expect(taken.filter((one) => one !== undefined)).toEqual([content]);
  });

  test('is consumed by one of many callers, again within the grace period, and not after its expiry', async () => {
    const [id, past] = [newId(), newId()];
    await records.put('RefreshToken', id, { content, ttlS: 60 });
    await records.put('RefreshToken', past, { content, ttlS: -1 });
    const all = Array.from({ length: 16 }, () => records.consume('RefreshToken', id, 0));
    expect((await Promise.all(all)).filter(Boolean)).toHaveLength(1);
    expect(await records.consume('RefreshToken', id, 60_000)).toBe(true);
    expect(await records.consume('RefreshToken', past, 60_000)).toBe(false);
    expect((await records.find('RefreshToken', id))?.consumedMsAgo).toBeGreaterThanOrEqual(0);
    expect(await records.take('RefreshToken', past)).toBeUndefined();
  });

  test('is deleted after its expiry; a used record is stored for one more day', async () => {
    const [live, past, used, usedLong] = [newId(), newId(), newId(), newId()];
    for (const id of [live, past, used, usedLong]) {
      await records.put('AuthorizationCode', id, { content, ttlS: 60 });
    }
    for (const id of [used, usedLong]) await records.consume('AuthorizationCode', id, 0);
    const expire = (id: string, hours: number) =>
      records.put('AuthorizationCode', id, { content, ttlS: -3_600 * hours });
    await Promise.all([expire(past, 1), expire(used, 1), expire(usedLong, 25)]);
    await purgeOneTimeRecords(db.pool);
    const left = await Promise.all(
      [live, past, used, usedLong].map((id) => records.find('AuthorizationCode', id)),
    );
    expect(left.map((one) => one !== undefined)).toEqual([true, false, true, false]);
  });

  test('is deleted by statements of bounded size that use the index on the expiry', async () => {
    await db.pool.query(
      `insert into oauth_tickets (kind, id_hash, sealed, expires_at)
       select 'SignIn', sha256(n::text::bytea), 'x', now() - interval '1 minute'
         from generate_series(1, 2500) as n`,
    );
    const plan = await planOfPurge();
    expect(plan).toMatch(/ oauth_tickets_expires .*\n\s+Index Cond: \(expires_at < now\(\)\)/);
    const left = async () =>
      (await db.pool.query("select from oauth_tickets where sealed = 'x'")).rowCount;
    const counts: unknown[] = [];
    while (await purgeOneTimeRecords(db.pool)) counts.push(await left());
    expect([counts, await left()]).toEqual([[1_500, 500], 0]);
  });
});

/** The plan that PostgreSQL uses for a large table. */
async function planOfPurge(): Promise<string> {
  const lines: string[] = [];
  const client = await db.pool.connect();
  await client.query('set enable_seqscan = off');
  const explaining = new Proxy(client, {
    get: () => async (sql: string, values?: unknown[]) => {
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain ${sql}`, values);
      lines.push(...rows.map((row) => row['QUERY PLAN']));
      return { rowCount: 0 };
    },
  });
  await purgeOneTimeRecords(explaining);
  client.release(true);
  return lines.join('\n');
}
