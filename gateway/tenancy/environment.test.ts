import { randomUUID } from 'node:crypto';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { staticIdentity } from '../../services/platform/security/identity.ts';
import { startFakeBackend } from '../../test/kit/gateway/fake-backend.ts';
import {
  TEST_AUTHOR as by,
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { outcomesOfPair, pairsOf } from '../../test/kit/postgres/raced.ts';
import { connectServices } from '../services.ts';
import { issueApiKey, listApiKeys, revokeApiKey, rotateApiKey } from './api-keys.ts';
import { switchEnvironment } from './environment.ts';
import { revokeGrant } from './grants.ts';
import { approveApiKey, rejectApiKey } from './key-approval.ts';
import { addMember, removeMember } from './members.ts';
import type { Role } from './permissions.ts';
import { requireShop } from './shops.ts';
import { unlinkAccount } from './sign-in-accounts.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

describe('a switch', () => {
  let backend: Awaited<ReturnType<typeof startFakeBackend>>;
  let clients: ReturnType<typeof connectServices>;

  /** What returns and webhooks have stored, the calls that they got, and the call at which they fail. */
  let stored: { returns: boolean; webhooks: boolean };
  let calls: string[];
  let failAt: string | undefined;

  beforeAll(async () => {
    backend = await startFakeBackend();
    const identity = staticIdentity('test-token-of-32-characters-or-more');
    clients = connectServices(backend.targets, { identity });
  });
  afterAll(async () => {
    clients.close();
    await backend.stop();
  });

  beforeEach(() => {
    calls = [];
    failAt = undefined;
    const note = async (call: string, shopId: bigint): Promise<void> => {
      const { sandbox } = await requireShop(under.database.pool, shopId);
      calls.push(`${call}, gateway ${sandbox}`);
      if (failAt === call) throw new ConnectError('effects are unknown', Code.FailedPrecondition);
    };
    backend.services.returns.updateSettings = async ({ shopId, settings, validateOnly }) => {
      const sandbox = settings?.sandbox ?? false;
      await note(validateOnly ? 'check returns' : `returns ${sandbox}`, shopId);
      if (!validateOnly) stored.returns = sandbox;
      return {};
    };
    backend.services.webhooks.setSandbox = async ({ shopId, sandbox }) => {
      await note(`webhooks ${sandbox}`, shopId);
      stored.webhooks = sandbox;
      return {};
    };
  });
  afterEach(() => backend.reset());

  async function shopThat(o: { readonly sandbox: boolean }): Promise<bigint> {
    stored = { returns: o.sandbox, webhooks: o.sandbox };
    return under.newShop(o);
  }

  const switchTo = (shopId: bigint, sandbox: boolean, force = false) =>
    switchEnvironment(under.database.pool, clients.services, {
      shopId,
      sandbox,
      force,
      by: TEST_AUTHOR,
      effectiveAfterMs: 0,
    });

  async function everywhere(shopId: bigint): Promise<readonly boolean[]> {
    const { sandbox } = await requireShop(under.database.pool, shopId);
    return [stored.returns, stored.webhooks, sandbox];
  }

  const ON = ['returns true, gateway false', 'webhooks true, gateway false'];
  const OFF = [
    'check returns, gateway true',
    'webhooks false, gateway false',
    'returns false, gateway false',
  ];

  test('to a sandbox stops money before anything says sandbox', async () => {
    const shopId = await shopThat({ sandbox: false });
    expect(await switchTo(shopId, true)).toBe(0);
    expect(calls).toEqual(ON);
    expect(await everywhere(shopId)).toEqual([true, true, true]);
  });

  test('to a live shop lets money move when nothing says sandbox any more', async () => {
    const shopId = await shopThat({ sandbox: true });
    await switchTo(shopId, false);
    expect(calls).toEqual(OFF);
    expect(await everywhere(shopId)).toEqual([false, false, false]);
  });

  test.each([
    [true, 'returns true', [false, false, false]],
    [true, 'webhooks true', [true, false, false]],
    [false, 'check returns', [true, true, true]],
    [false, 'webhooks false', [true, true, false]],
    [false, 'returns false', [true, false, false]],
  ])('to sandbox=%j that fails at `%s` is completed by a repeat', async (sandbox, at, between) => {
    const shopId = await shopThat({ sandbox: !sandbox });
    failAt = at;
    await expect(switchTo(shopId, sandbox)).rejects.toMatchObject({
      code: Code.FailedPrecondition,
    });
    expect(await everywhere(shopId)).toEqual(between);
    failAt = undefined;
    await switchTo(shopId, sandbox);
    expect(await everywhere(shopId)).toEqual([sandbox, sandbox, sandbox]);
  });

  test('that is repeated writes everything again, also without keys to stop', async () => {
    const shopId = await shopThat({ sandbox: false });
    await under.newKey({ shopId });
    await switchTo(shopId, true, true);
    expect(await switchTo(shopId, true)).toBe(1);
    expect(await everywhere(shopId)).toEqual([true, true, true]);
  });

  test('is refused before any call while it would stop active keys', async () => {
    const shopId = await shopThat({ sandbox: true });
    await under.newKey({ shopId });
    await expect(switchTo(shopId, false)).rejects.toThrow('1 active keys');
    expect(calls).toEqual([]);
    expect(await switchTo(shopId, false, true)).toBe(1);
  });

  test('is refused while another one runs, and the next one is not', async () => {
    const shopId = await shopThat({ sandbox: false });
    const both = await Promise.allSettled([switchTo(shopId, true), switchTo(shopId, true)]);
    const refused = both.filter(({ status }) => status === 'rejected');
    if (refused.length > 0) {
      expect(refused).toMatchObject([{ reason: { message: expect.stringContaining('another') } }]);
    }
    await switchTo(shopId, false);
    expect(await everywhere(shopId)).toEqual([false, false, false]);
  });

  test('changes no other shop, and needs one that exists', async () => {
    const other = await under.newShop();
    const shopId = await shopThat({ sandbox: false });
    await switchTo(shopId, true);
    expect((await requireShop(under.database.pool, other)).sandbox).toBe(false);
    await expect(switchTo(999_999n, true)).rejects.toMatchObject({ code: Code.NotFound });
  });
});

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

describe('two decisions about one waiting key at the same time have the outcome of one after the other', () => {
  interface Target {
    readonly shopId: bigint;
    readonly keyId: string;
    readonly owner: string;
    readonly maker: string;
    readonly by: typeof TEST_AUTHOR & { readonly userId: bigint };
  }
  const writes: Record<string, (of: Target) => Promise<unknown>> = {
    approve: (of) => approveApiKey(pool(), of),
    reject: (of) => rejectApiKey(pool(), of),
    revoke: (of) => revokeApiKey(pool(), of),
    'remove the maker': ({ shopId, maker: email }) => removeMember(pool(), { shopId, email, by }),
    'make the owner an admin': async ({ shopId, owner: email }) =>
      (await addMember(pool(), { shopId, email, role: 'admin', by })).role,
  };

  test.each(pairsOf(Object.keys(writes)))('%s, then %s', async (...pair) => {
    const { together, serial } = await outcomesOfPair<Target>(
      {
        pool: pool(),
        async make() {
          const shopId = await under.newShop();
          const member = async (role: Role) => {
            const email = `${randomUUID()}@example.com`;
            const { userId } = await addMember(pool(), { shopId, email, role, by });
            return { email, by: { ...by, userId } };
          };
          const [owner, maker] = [await member('owner'), await member('developer')];
          await member('owner');
          const made = { shopId, scopes: ['returns'], idempotencyKey: randomUUID(), by: maker.by };
          const { keyId } = await issueApiKey(pool(), { ...made, description: '' });
          return { shopId, keyId, by: owner.by, owner: owner.email, maker: maker.email };
        },
        lock: ({ shopId }) => ({
          text: 'select from shops where id = $1 for update',
          values: [shopId],
        }),
        writes,
        stored: async ({ shopId }) => {
          const { rows } = await pool().query(
            'select action from audit_log where shop_id = $1 order by id',
            [shopId],
          );
          const [key] = await listApiKeys(pool(), shopId);
          return [key?.isWaiting, key?.revokedAt === null, rows];
        },
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
