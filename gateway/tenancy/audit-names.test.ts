import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { recordAudit } from './audit.ts';
import { listAudit } from './audit-list.ts';
import { namesFor } from './audit-names.ts';
import { addMember, removeMember } from './members.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under?.stop());

async function newMember(shopId: bigint): Promise<{ userId: bigint; email: string }> {
  const email = `${randomUUID()}@example.com`;
  const member = { shopId, email, role: 'analyst', by: TEST_AUTHOR } as const;
  const { userId } = await addMember(under.database.pool, member);
  return { userId, email };
}

/** The e-mail addresses that the names of the shop's whole audit log have. */
async function emailsIn(shopId: bigint): Promise<string[]> {
  const { pool } = under.database;
  const { users } = await namesFor(pool, shopId, await listAudit(pool, { shopId, limit: 100 }));
  return [...users.values()].map(({ email }) => email);
}

describe('the names of an audit log', () => {
  test('have no user of another shop, although a rejected request named one', async () => {
    const [shopId, otherShopId] = [await under.newShop(), await under.newShop()];
    const [member, stranger] = [await newMember(shopId), await newMember(otherShopId)];
    for (const action of ['portal.change_role', 'portal.remove_member']) {
      const detail = { call: randomUUID(), phase: 'refused' };
      const subject = String(stranger.userId);
      await recordAudit(under.database.pool, { shopId, by: TEST_AUTHOR, action, subject, detail });
    }
    const emails = await emailsIn(shopId);
    expect(emails).toContain(member.email);
    expect(emails).not.toContain(stranger.email);
  });

  test('have a member who was removed', async () => {
    const shopId = await under.newShop();
    const { email } = await newMember(shopId);
    await removeMember(under.database.pool, { shopId, email, by: TEST_AUTHOR });
    expect(await emailsIn(shopId)).toContain(email);
  });
});
