import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { revokeGrant } from '../tenancy/grants.ts';
import { addMember } from '../tenancy/members.ts';
import { type GrantFor, storeGrant } from './issue.ts';

let gateway: TestGateway;
let grant: GrantFor;
beforeAll(async () => {
  gateway = await startTestGateway();
  const shopId = await gateway.newShop();
  const member = { shopId, email: 'ada@example.com', role: 'owner', by: TEST_AUTHOR } as const;
  const { userId } = await addMember(gateway.database.pool, member);
  grant = { shopId, userId, clientId: 'rms-mcp' };
});
afterAll(() => gateway.stop());

describe('storeGrant', () => {
  test('returns true for exactly one of many concurrent callers', async () => {
    const { pool } = gateway.database;
    const clients = await Promise.all(Array.from({ length: 8 }, () => pool.connect()));
    const news: number[] = [];
    try {
      for (let round = 0; round < 300; round += 1) {
        const id = randomUUID();
        const stored = await Promise.all(clients.map((client) => storeGrant(client, id, grant)));
        news.push(stored.filter((isNew) => isNew).length);
      }
    } finally {
      for (const client of clients) client.release(true);
    }
    expect(new Set(news)).toEqual(new Set([1]));
  });

  test.each<[string, () => Promise<Partial<GrantFor>>]>([
    ['another shop', async () => ({ shopId: await gateway.newShop() })],
    ['another client', async () => ({ clientId: 'other' })],
  ])('rejects the id of a grant of %s', async (_, other) => {
    const { pool } = gateway.database;
    const id = randomUUID();
    await storeGrant(pool, id, grant);
    const changed = { ...grant, ...(await other()) };
    await expect(storeGrant(pool, id, changed)).rejects.toThrow('another grant has this id');
  });

  test('rejects the id of a revoked grant', async () => {
    const { pool } = gateway.database;
    const id = randomUUID();
    await storeGrant(pool, id, grant);
    await pool.query('update oauth_grants set revoked_at = now() where id = $1', [id]);
    await expect(storeGrant(pool, id, grant)).rejects.toThrow('another grant has this id');
  });

  test('stores two grants of one user and app, which can be ended concurrently without a deadlock', async () => {
    const { pool } = gateway.database;
    for (let round = 0; round < 30; round += 1) {
      const ids = [randomUUID(), randomUUID()];
      for (const id of ids) await storeGrant(pool, id, { ...grant, app: 'one', isConsented: true });
      await Promise.all(ids.map((id) => revokeGrant(pool, { id, by: TEST_AUTHOR })));
    }
    const active = `select from oauth_grants where app = 'one' and (revoked_at is null or consented_at is not null)`;
    expect((await pool.query(active)).rowCount).toBe(0);
  });
});
