import { randomUUID } from 'node:crypto';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { type AdminBench, startAdminBench } from '../../test/kit/gateway/admin-bench.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { createApiKey, listApiKeys, revokeApiKey } from './api-keys.ts';
import { findInstallation, installApp, removeApp } from './installations.ts';
import { addMember, listMembers, type MemberChange, removeMember } from './members.ts';
import { PERMISSIONS, permits, ROLE_PERMISSIONS, ROLES } from './permissions.ts';
import { createShop, listShops, type NewShop, type Shop } from './shops.ts';
import { findUser } from './users.ts';

describe('a shop', () => {
  let bench: AdminBench;

  beforeAll(async () => {
    bench = await startAdminBench();
  });
  afterAll(() => bench?.stop());

  let serial = 0;
  const by = TEST_AUTHOR;

  function emailOf(name: string): string {
    serial += 1;
    return `${name}-${serial}@example.com`;
  }

  function newShop(shop: Partial<NewShop> = {}): Promise<Shop> {
    return createShop(bench.pool, bench.services, {
      name: 'Shoes',
      currency: 'GBP',
      ownerEmail: emailOf('owner'),
      payloadVersion: '2026-10',
      by,
      ...shop,
    });
  }

  async function auditOf(shopId: bigint): Promise<string[]> {
    const { rows } = await bench.pool.query<{ action: string }>(
      'select action from audit_log where shop_id = $1 order by id',
      [shopId],
    );
    return rows.map(({ action }) => action);
  }

  describe('shop create', () => {
    test('creates its owner, and sends currency and payload version to the services', async () => {
      const calls: unknown[] = [];
      bench.backend.services.returns.updateSettings = ({ shopId, settings }) => {
        calls.push([shopId, settings?.currency]);
        return {};
      };
      bench.backend.services.webhooks.setPayloadVersion = ({ shopId, version }) => {
        calls.push([shopId, version]);
        return { version };
      };
      const ownerEmail = emailOf('Owner');
      const shop = await newShop({ ownerEmail, currency: 'jpy' });
      bench.backend.reset();
      expect(calls).toEqual([
        [shop.id, 'JPY'],
        [shop.id, '2026-10'],
      ]);
      const owner = await findUser(bench.pool, ownerEmail.toUpperCase());
      const members = await listMembers(bench.pool, shop.id);
      expect(members).toMatchObject([{ userId: owner?.id, role: 'owner' }]);
      expect(await auditOf(shop.id)).toEqual(['shop.created']);
    });

    test('is idempotent, and does not change settings that a service already has', async () => {
      const ownerEmail = emailOf('owner');
      const first = await newShop({ ownerEmail });
      bench.backend.services.returns.updateSettings = () => {
        throw new ConnectError('must not be called', Code.Internal);
      };
      expect((await newShop({ ownerEmail })).id).toBe(first.id);
      bench.backend.reset();
      expect((await newShop({ ownerEmail, name: 'Other' })).id).not.toBe(first.id);
    });

    test('completes an interrupted run', async () => {
      const ownerEmail = emailOf('owner');
      bench.backend.services.webhooks.setPayloadVersion = () => {
        throw new ConnectError('unavailable', Code.Unavailable);
      };
      await expect(newShop({ ownerEmail })).rejects.toThrow();
      bench.backend.reset();
      const shop = await newShop({ ownerEmail });
      expect(shop.configuredAt).toBeInstanceOf(Date);
      expect(await auditOf(shop.id)).toEqual(['shop.created']);
    });

    test.each([
      [{ currency: 'GBX1' }, 'currency'],
      [{ currency: 'QQQ' }, 'currency'],
      [{ name: ' ' }, 'name'],
      [{ ownerEmail: 'nobody' }, 'email'],
    ])('rejects %j', async (invalid, field) => {
      await expect(newShop(invalid)).rejects.toMatchObject({ code: Code.InvalidArgument, field });
    });

    test('rejects another currency for an existing shop', async () => {
      const ownerEmail = emailOf('owner');
      await newShop({ ownerEmail });
      const again = newShop({ ownerEmail, currency: 'EUR' });
      await expect(again).rejects.toMatchObject({ code: Code.AlreadyExists });
    });

    test('ids ascend from 1', async () => {
      const shops = await listShops(bench.pool);
      expect(shops[0]?.id).toBe(1n);
    });
  });

  describe('members', () => {
    async function team() {
      const shop = await newShop();
      const { pool } = bench;
      const add = async (role: 'owner' | 'admin' | 'analyst') => {
        const email = emailOf(role);
        const { userId } = await addMember(pool, { shopId: shop.id, email, role, by });
        return {
          email,
          by: { actor: { kind: Actor_Kind.USER, id: String(userId), name: '' }, userId },
        };
      };
      const [owner, admin, analyst] = [
        await add('owner'),
        await add('admin'),
        await add('analyst'),
      ];
      return { pool, shopId: shop.id, owner, admin, analyst };
    }
    const denied = { code: Code.PermissionDenied };

    test('only an owner changes owners', async () => {
      const { pool, shopId, owner, admin } = await team();
      const promote = (by: typeof admin.by) =>
        addMember(pool, { shopId, email: admin.email, role: 'owner', by });
      await expect(promote(admin.by)).rejects.toMatchObject(denied);
      const remove = removeMember(pool, { shopId, email: owner.email, by: admin.by });
      await expect(remove).rejects.toMatchObject(denied);
      expect(await promote(owner.by)).toMatchObject({ role: 'owner' });
    });

    test('an admin may change other roles than owner, an analyst may change none', async () => {
      const { pool, shopId, admin, analyst } = await team();
      const add = (by: typeof admin.by) =>
        addMember(pool, { shopId, email: emailOf('new'), role: 'warehouse', by });
      expect(await add(admin.by)).toMatchObject({ role: 'warehouse' });
      await expect(add(analyst.by)).rejects.toMatchObject(denied);
      const self = removeMember(pool, { shopId, email: analyst.email, by: analyst.by });
      await expect(self).rejects.toMatchObject(denied);
    });

    test('the last owner cannot be removed', async () => {
      const { pool, shopId, owner } = await team();
      const shop = await newShop({ ownerEmail: owner.email, name: 'Second' });
      const leave = removeMember(pool, { shopId: shop.id, email: owner.email, by });
      await expect(leave).rejects.toMatchObject({ code: Code.FailedPrecondition });
      await removeMember(pool, { shopId, email: owner.email, by });
    });

    test('a member of one shop is not a member of another', async () => {
      const { pool, analyst } = await team();
      const other = await newShop();
      const members = await listMembers(pool, other.id);
      expect(members.map(({ userId }) => userId)).not.toContain(analyst.by.userId);
      const remove = removeMember(pool, { shopId: other.id, email: analyst.email, by });
      await expect(remove).rejects.toMatchObject({ code: Code.NotFound });
    });

    test('the audit log has actor, source, action and object', async () => {
      const { pool, shopId, admin, analyst } = await team();
      const author = { ...admin.by, source: '203.0.113.7' };
      await removeMember(pool, { shopId, email: analyst.email, by: author });
      const { rows } = await pool.query(
        `select actor_kind, actor_id, source, action, subject from audit_log
        where shop_id = $1 order by id desc limit 1`,
        [shopId],
      );
      expect(rows).toEqual([
        {
          actor_kind: 'user',
          actor_id: String(admin.by.userId),
          source: '203.0.113.7',
          action: 'member.removed',
          subject: String(analyst.by.userId),
        },
      ]);
    });

    test('every change is audited, and the log is append only', async () => {
      const { pool, shopId, analyst } = await team();
      await addMember(pool, { shopId, email: analyst.email, role: 'developer', by });
      await removeMember(pool, { shopId, email: analyst.email, by });
      expect((await auditOf(shopId)).slice(-2)).toEqual(['member.role_changed', 'member.removed']);
      await expect(pool.query("update audit_log set action = 'x'")).rejects.toThrow(
        /permission denied/,
      );
      await expect(pool.query('delete from audit_log')).rejects.toThrow(/permission denied/);
    });
  });

  describe('API keys', () => {
    test('are stored without their secret', async () => {
      const shop = await newShop();
      const { text, keyId } = await createApiKey(bench.pool, {
        shopId: shop.id,
        scopes: ['returns', 'returns'],
        description: 'ERP',
        by,
      });
      const [key] = await listApiKeys(bench.pool, shop.id);
      expect(key).toMatchObject({
        keyId,
        scopes: ['returns'],
        description: 'ERP',
        revokedAt: null,
      });
      const { rows } = await bench.pool.query('select row_to_json(k) as row from api_keys k');
      expect(JSON.stringify(rows)).not.toContain(text.slice(17));
      expect(await auditOf(shop.id)).toContain('api_key.created');
    });

    test('a shop has at most 100 active ones, also with concurrent calls', async () => {
      const shop = await newShop();
      const create = () =>
        createApiKey(bench.pool, { shopId: shop.id, scopes: [], description: '', by });
      // The calls wait for the shop's lock. Their number is limited, because too many would time out on a slow machine.
      const createdOf = async (count: number) => {
        const results = await Promise.allSettled(Array.from({ length: count }, create));
        return results.filter(({ status }) => status === 'fulfilled').length;
      };
      for (let ten = 0; ten < 9; ten += 1) expect(await createdOf(10)).toBe(10);
      expect(await createdOf(13)).toBe(10);
      await expect(create()).rejects.toMatchObject({ code: Code.ResourceExhausted });
      const [key] = await listApiKeys(bench.pool, shop.id);
      await revokeApiKey(bench.pool, { shopId: shop.id, keyId: key?.keyId ?? '', by });
      const { keyId } = await create();
      await expect(create()).rejects.toMatchObject({ code: Code.ResourceExhausted });
      const expire = "update api_keys set expires_at = now() - interval '1 s' where key_id = $1";
      await bench.pool.query(expire, [keyId]);
      await create();
    });

    test('cannot be revoked by another shop, and revoking is idempotent', async () => {
      const [shop, other] = [await newShop(), await newShop()];
      const { keyId } = await createApiKey(bench.pool, {
        shopId: shop.id,
        scopes: [],
        description: '',
        by,
      });
      const revokeOther = revokeApiKey(bench.pool, { shopId: other.id, keyId, by });
      await expect(revokeOther).rejects.toMatchObject({ code: Code.NotFound });
      for (const _ of [1, 2]) await revokeApiKey(bench.pool, { shopId: shop.id, keyId, by });
      expect(
        (await auditOf(shop.id)).filter((action) => action === 'api_key.revoked'),
      ).toHaveLength(1);
    });

    test('must have known scopes and an existing shop', async () => {
      const key = { shopId: 1n, scopes: ['everything'], description: '', by };
      await expect(createApiKey(bench.pool, key)).rejects.toMatchObject({
        field: 'scopes',
      });
      const ofUnknownShop = { ...key, scopes: [], shopId: 999_999n };
      await expect(createApiKey(bench.pool, ofUnknownShop)).rejects.toMatchObject({
        code: Code.NotFound,
      });
    });
  });

  describe('installations', () => {
    test('can be added and removed, per shop', async () => {
      const { pool } = bench;
      const [shop, other] = [await newShop(), await newShop()];
      const app = { shopId: shop.id, issuer: 'https://auth.example.com', clientId: 'erp' };
      for (const _ of [1, 2]) await installApp(pool, { ...app, by });
      expect(await findInstallation(pool, app)).toEqual({ sandbox: false });
      expect(await findInstallation(pool, { ...app, shopId: other.id })).toBeUndefined();
      await removeApp(pool, { ...app, by });
      expect(await findInstallation(pool, app)).toBeUndefined();
      await expect(removeApp(pool, { ...app, by })).rejects.toMatchObject({ code: Code.NotFound });
      expect(await auditOf(shop.id)).toEqual(['shop.created', 'app.installed', 'app.removed']);
    });
  });
});

describe('members', () => {
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
});

describe('permissions', () => {
  test('owner and admin have all permissions; only they manage the team', () => {
    expect(ROLE_PERMISSIONS.owner).toEqual(PERMISSIONS);
    expect(ROLE_PERMISSIONS.admin).toEqual(PERMISSIONS);
    expect(ROLES.filter((role) => permits(role, ['team.manage']))).toEqual(['owner', 'admin']);
  });
  test('one of several permissions is enough', () => {
    expect(permits('warehouse', ['returns.manage', 'warehouse.disposition'])).toBe(true);
    expect(permits('analyst', ['returns.manage', 'returns.process'])).toBe(false);
  });
});
