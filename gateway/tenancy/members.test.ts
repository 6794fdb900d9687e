import { randomUUID } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { addMember, listMembers, type MemberChange } from './members.ts';
import { findUser } from './users.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under?.stop());

const newEmail = (): string => `${randomUUID()}@example.com`;

/** A new shop, and its owner as the author of changes. */
async function newTeam(): Promise<Pick<MemberChange, 'shopId' | 'by'>> {
  const shopId = await under.newShop();
  const owner = { shopId, email: newEmail(), role: 'owner', by: TEST_AUTHOR } as const;
  const { userId } = await addMember(under.database.pool, owner);
  const actor = { kind: Actor_Kind.USER, id: String(userId), name: '' };
  return { shopId, by: { actor, userId } };
}

test('a shop has at most 1,000 members, whose roles may change', async () => {
  const { pool } = under.database;
  const team = await newTeam();
  const known = { ...team, email: newEmail(), role: 'analyst' } as const;
  await addMember(pool, known);
  await pool.query(
    `with added as (
       insert into users (email) select gen_random_uuid() || '@example.com' from generate_series(1, 998)
       returning id)
     insert into memberships (shop_id, user_id, role) select $1, id, 'analyst' from added`,
    [team.shopId],
  );
  const add = addMember(pool, { ...team, email: newEmail(), role: 'analyst' });
  await expect(add).rejects.toMatchObject({ code: Code.ResourceExhausted });
  expect(await addMember(pool, { ...known, role: 'developer' })).toMatchObject({
    role: 'developer',
  });
});

describe('the name of a person', () => {
  const nameAfter = async (change: MemberChange & { readonly name: string }) => {
    const { userId } = await addMember(under.database.pool, { ...change, role: 'analyst' });
    const members = await listMembers(under.database.pool, change.shopId);
    return members.find((one) => one.userId === userId)?.name;
  };

  test('is what the shop says, and then not changed by another shop', async () => {
    const [first, other, email] = [await newTeam(), await newTeam(), newEmail()];
    expect(await nameAfter({ ...first, email, name: 'Bo' })).toBe('Bo');
    expect(await nameAfter({ ...first, email, name: 'Bob' })).toBe('Bob');
    expect(await nameAfter({ ...other, email, name: 'Mallory' })).toBe('Bob');
  });

  test('is what an operator says', async () => {
    const [first, other, email] = [await newTeam(), await newTeam(), newEmail()];
    await nameAfter({ ...first, email, name: 'Bo' });
    await nameAfter({ ...other, email, name: 'Bo', by: TEST_AUTHOR });
    await nameAfter({ ...first, email, name: 'Robert', by: TEST_AUTHOR });
    expect((await findUser(under.database.pool, email))?.name).toBe('Robert');
  });
});
