import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/support/database.ts';
import { createTickets, purgeTickets, type Tickets } from './tickets.ts';

let db: TestDatabase;
let tickets: Tickets;
beforeAll(async () => {
  db = await createTestDatabase('gateway');
  tickets = createTickets(db.pool);
});
afterAll(() => db.drop());

const newId = (): string => randomBytes(32).toString('base64url');
const content = { said: 'what nobody else may read' };

describe('a ticket', () => {
  test('is found by its id and kind only, and says nothing to the database', async () => {
    const id = newId();
    await tickets.put('SignIn', id, { content, ttlS: 60 });
    expect(await tickets.find('SignIn', id)).toEqual({ content, consumedMsAgo: null });
    expect(await tickets.find('SignedIn', id)).toBeUndefined();
    expect(await tickets.find('SignIn', newId())).toBeUndefined();
    const { rows } = await db.pool.query('select oauth_tickets::text as text from oauth_tickets');
    const stored = rows.map(({ text }) => text).join();
    for (const word of [id, content.said]) {
      expect(stored).not.toContain(word);
      expect(stored).not.toContain(Buffer.from(word).toString('hex'));
    }
  });

  test('is taken by one of many', async () => {
    const id = newId();
    await tickets.put('SignIn', id, { content, ttlS: 60 });
    const taken = await Promise.all(Array.from({ length: 16 }, () => tickets.take('SignIn', id)));
    expect(taken.filter((one) => one !== undefined)).toEqual([content]);
  });

  test('is consumed by one of many, again within its grace, and not when it has expired', async () => {
    const [id, past] = [newId(), newId()];
    await tickets.put('RefreshToken', id, { content, ttlS: 60 });
    await tickets.put('RefreshToken', past, { content, ttlS: -1 });
    const all = Array.from({ length: 16 }, () => tickets.consume('RefreshToken', id, 0));
    expect((await Promise.all(all)).filter(Boolean)).toHaveLength(1);
    expect(await tickets.consume('RefreshToken', id, 60_000)).toBe(true);
    expect(await tickets.consume('RefreshToken', past, 60_000)).toBe(false);
    expect((await tickets.find('RefreshToken', id))?.consumedMsAgo).toBeGreaterThanOrEqual(0);
    expect(await tickets.take('RefreshToken', past)).toBeUndefined();
  });

  test('goes when it has expired; a used one is remembered for another day', async () => {
    const [live, past, used, usedLong] = [newId(), newId(), newId(), newId()];
    for (const id of [live, past, used, usedLong]) {
      await tickets.put('AuthorizationCode', id, { content, ttlS: 60 });
    }
    for (const id of [used, usedLong]) await tickets.consume('AuthorizationCode', id, 0);
    const expire = (id: string, hours: number) =>
      tickets.put('AuthorizationCode', id, { content, ttlS: -3_600 * hours });
    await Promise.all([expire(past, 1), expire(used, 1), expire(usedLong, 25)]);
    await purgeTickets(db.pool);
    const left = await Promise.all(
      [live, past, used, usedLong].map((id) => tickets.find('AuthorizationCode', id)),
    );
    expect(left.map((one) => one !== undefined)).toEqual([true, false, true, false]);
  });

  test('goes with many others in statements of bounded size, which find it by when it expired', async () => {
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
    while (await purgeTickets(db.pool)) counts.push(await left());
    expect([counts, await left()]).toEqual([[1_500, 500], 0]);
  });
});

/** How PostgreSQL would go about it, were the table too large to be read from end to end. */
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
  await purgeTickets(explaining);
  client.release(true);
  return lines.join('\n');
}
