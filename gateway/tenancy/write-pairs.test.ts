import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  TEST_AUTHOR as by,
  startTestGateway,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { outcomesOfPair, pairsOf } from '../../test/kit/postgres/raced.ts';
import { issueApiKey, rotateApiKey } from './api-key-issue.ts';
import { listApiKeys, revokeApiKey } from './api-keys.ts';
import { revokeGrant } from './grants.ts';
import { addMember, removeMember } from './members.ts';
import type { Role } from './permissions.ts';
import { unlinkAccount } from './sign-in-accounts.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

const pool = () => under.database.pool;

describe('two writes of one API key at the same time have the outcome of one after the other', () => {
  interface Target {
    readonly shopId: bigint;
    readonly keyId: string;
  }
  const writes: Record<string, (of: Target) => Promise<unknown>> = {
    // The text of the error has the id of the new key.
    rotate: (of) =>
      rotateApiKey(pool(), { ...of, overlapHours: 1, idempotencyKey: randomUUID(), by }).then(
        () => 'rotated',
        ({ code }) => code,
      ),
    revoke: (of) => revokeApiKey(pool(), { ...of, by }),
  };

  test.each(pairsOf(Object.keys(writes)))('%s, then %s', async (...pair) => {
    const { together, serial } = await outcomesOfPair<Target>(
      {
        pool: pool(),
        async make() {
          const shopId = await under.newShop();
          const key = { description: '', expiresAt: undefined, idempotencyKey: randomUUID() };
          const scopes = ['returns'];
          return { shopId, ...(await issueApiKey(pool(), { shopId, scopes, ...key, by })) };
        },
        lock: ({ shopId, keyId }) => ({
          text: 'select from api_keys where shop_id = $1 and key_id = $2 for update',
          values: [shopId, keyId],
        }),
        writes,
        stored: async ({ shopId }) =>
          (await listApiKeys(pool(), shopId)).map((key) => [
            key.revokedAt !== null,
            key.expiresAt !== null,
          ]),
      },
      pair,
    );
    expect(together).toEqual(serial);
  });
});

describe('two writes of one member at the same time have the outcome of one after the other', () => {
  interface Target {
    readonly shopId: bigint;
    readonly email: string;
    readonly userId: bigint;
    readonly grantId: string;
  }
  const setRole = (role: Role) => async (of: Target) =>
    (await addMember(pool(), { ...of, role, by })).role;
  const writes: Record<string, (of: Target) => Promise<unknown>> = {
    'role owner': setRole('owner'),
    'role analyst': setRole('analyst'),
    remove: (of) => removeMember(pool(), { ...of, by }),
    unlink: (of) => unlinkAccount(pool(), { ...of, by }),
    'revoke grant': ({ grantId: id, shopId }) => revokeGrant(pool(), { id, shopId, by }),
  };

  test.each(pairsOf(Object.keys(writes)))('%s, then %s', async (...pair) => {
    const { together, serial } = await outcomesOfPair<Target>(
      {
        pool: pool(),
        async make() {
          const shopId = await under.newShop();
          const member = { shopId, email: `${randomUUID()}@example.com`, by };
          await addMember(pool(), {
            shopId,
            email: `${randomUUID()}@example.com`,
            role: 'owner',
            by,
          });
          const { userId } = await addMember(pool(), { ...member, role: 'developer' });
          const grantId = randomUUID();
          await pool().query(
            `insert into oauth_grants (shop_id, id, user_id, client_id, expires_at)
             values ($1, $2, $3, 'c', now() + interval '1 day')`,
            [shopId, grantId, userId],
          );
          return { ...member, userId, grantId };
        },
        lock: ({ shopId, userId }) => ({
          text: `select from memberships m, oauth_grants g
                  where m.shop_id = $1 and m.user_id = $2 and g.shop_id = $1 and g.user_id = $2 for update`,
          values: [shopId, userId],
        }),
        writes,
        async stored({ shopId, userId }) {
          const { rows } = await pool().query(
            `select (select role from memberships where shop_id = $1 and user_id = $2) as role,
                    (select array_agg(revoked_at is not null) from oauth_grants where shop_id = $1 and user_id = $2) as revoked,
                    (select array_agg(action order by action) from audit_log where shop_id = $1) as actions`,
            [shopId, userId],
          );
          return rows;
        },
      },
      pair,
    );
    expect(together).toEqual(serial);
  });
});
