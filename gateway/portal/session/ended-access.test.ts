import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { AppsService } from '../../../proto/gen/rms/portal/v1/apps_pb.ts';
import { AssistantsService } from '../../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { TeamService } from '../../../proto/gen/rms/portal/v1/team_pb.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../../test/kit/portal/portal.ts';
import { costOf, recordingPool, vacuum } from '../../../test/kit/postgres/plans.ts';
import { storeGrant } from '../../oauth/tokens/issue.ts';
import { recordAudit, recordAudits } from '../../tenancy/audit.ts';
import { listEndedGrants, listRemovedApps } from '../../tenancy/ended-access.ts';
import { installApp } from '../../tenancy/installations.ts';
import { ROLES, type Role } from '../../tenancy/permissions.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

const inShop = (shopId: bigint, role: Role) => portalPerson(under, { shopId, role });
const newOwner = async () => inShop(await under.newShop(), 'owner');

/** Connects an assistant, as the consent page does. */
async function connect(
  { shopId, userId }: PortalPerson,
  { app, isReadOnly = false }: { readonly app: string; readonly isReadOnly?: boolean },
): Promise<string> {
  const { pool } = under.database;
  const [id, clientId] = [randomUUID(), 'rms-mcp'];
  await storeGrant(pool, id, { shopId, userId, clientId, app, isReadOnly });
  await recordAudit(pool, {
    shopId,
    by: { actor: { kind: Actor_Kind.USER, id: String(userId), name: 'Ada' } },
    action: 'assistant.connected',
    subject: id,
    detail: { client_id: clientId, app, ...(isReadOnly && { access: 'read_only' }) },
  });
  return id;
}

/** Ends an access as the maintenance does: without an entry. */
const expire = (id: string) =>
  under.database.pool.query('delete from oauth_grants where id = $1', [id]);

const endedOf = async (person: PortalPerson) =>
  (await person.client(AssistantsService).listEndedAssistants({})).assistants;

describe('assistants whose access has ended', () => {
  test('have the member, the rights, both times, how it ended and by whom; those that ended last first', async () => {
    const owner = await newOwner();
    const analyst = await inShop(owner.shopId, 'analyst');
    const [old, ended, active] = [
      await connect(analyst, { app: 'old.example' }),
      await connect(analyst, { app: 'claude.ai', isReadOnly: true }),
      await connect(owner, { app: 'chatgpt.com' }),
    ];
    await expire(old);
    await owner.client(AssistantsService).disconnectAssistant({ assistantId: ended });
    const assistants = await endedOf(owner);
    expect(assistants).toMatchObject([
      {
        id: ended,
        app: 'claude.ai',
        clientId: 'rms-mcp',
        userId: String(analyst.userId),
        userName: 'Ada',
        userEmail: analyst.email,
        own: false,
        readOnly: true,
        connectedAt: expect.anything(),
        endedAt: expect.anything(),
        reason: 'revoked',
        endedBy: { kind: 'user', id: String(owner.userId), name: 'Ada' },
      },
      { id: old, app: 'old.example', readOnly: false, reason: 'expired' },
    ]);
    expect(assistants[1]?.endedAt).toBeUndefined();
    expect(assistants[1]?.endedBy).toBeUndefined();
    expect(assistants.map(({ id }) => id)).not.toContain(active);
  });

  test('name an expired one also before the maintenance has deleted it', async () => {
    const owner = await newOwner();
    const id = await connect(owner, { app: 'claude.ai' });
    await under.database.pool.query('update oauth_grants set expires_at = now() where id = $1', [
      id,
    ]);
    expect(await endedOf(owner)).toMatchObject([{ id, reason: 'expired', own: true }]);
  });

  test('say that the member was removed', async () => {
    const owner = await newOwner();
    const analyst = await inShop(owner.shopId, 'analyst');
    const id = await connect(analyst, { app: 'claude.ai' });
    await owner.client(TeamService).removeMember({ userId: String(analyst.userId) });
    expect(await endedOf(owner)).toMatchObject([
      { id, userEmail: analyst.email, reason: 'member_removed' },
    ]);
  });

  test.each(ROLES)(
    'of the own person for %s; of all members only with team.manage',
    async (role) => {
      const owner = await newOwner();
      const person = await inShop(owner.shopId, role);
      const other = await inShop(owner.shopId, 'analyst');
      const [mine, foreign, gone] = [
        await connect(person, { app: 'claude.ai' }),
        await connect(other, { app: 'claude.ai' }),
        await connect(other, { app: 'gone.example' }),
      ];
      const assistants = owner.client(AssistantsService);
      await assistants.disconnectAssistant({ assistantId: mine });
      await assistants.disconnectAssistant({ assistantId: foreign });
      await expire(gone);
      const isManager = role === 'owner' || role === 'admin';
      const found = (await endedOf(person)).map(({ id }) => id);
      expect(found).toEqual(isManager ? [foreign, mine, gone] : [mine]);
      expect(await endedOf(await newOwner())).toEqual([]);
    },
  );
});

describe('partner apps that were removed', () => {
  test('have both times, and who removed them, also when they are installed again', async () => {
    const owner = await newOwner();
    const { shopId } = owner;
    const app = { issuer: 'https://auth.example.com', clientId: 'app-1' };
    const apps = owner.client(AppsService);
    for (let time = 0; time < 2; time += 1) {
      await installApp(under.database.pool, { ...app, shopId, by: TEST_AUTHOR });
      await apps.removeApp(app);
    }
    await installApp(under.database.pool, { ...app, shopId, by: TEST_AUTHOR });
    const { apps: removed } = await apps.listRemovedApps({});
    const removedBy = { kind: 'user', id: String(owner.userId), name: 'Ada' };
    expect(removed).toMatchObject([
      { ...app, installedAt: expect.anything(), removedAt: expect.anything(), removedBy },
      { ...app, installedAt: expect.anything(), removedAt: expect.anything(), removedBy },
    ]);
    expect(removed[0]?.installedAt).not.toEqual(removed[1]?.installedAt);
    const stranger = (await newOwner()).client(AppsService);
    expect((await stranger.listRemovedApps({})).apps).toEqual([]);
  });
});

test('a list says whether there are more than it has', async () => {
  const owner = await newOwner();
  const entry = { shopId: owner.shopId, by: TEST_AUTHOR, subject: 'a', detail: { issuer: 'i' } };
  const listsAfter = async (ends: number) => {
    for (const action of ['assistant.disconnected', 'app.removed']) {
      const entries = Array.from({ length: ends }, () => ({ ...entry, action }));
      await recordAudits(under.database.pool, entries);
    }
    const { assistants, more } = await owner.client(AssistantsService).listEndedAssistants({});
    const removed = await owner.client(AppsService).listRemovedApps({});
    return [assistants.length, more, removed.apps.length, removed.more];
  };
  expect(await listsAfter(50)).toEqual([50, false, 50, false]);
  expect(await listsAfter(1)).toEqual([50, true, 50, true]);
});

test('ended access is read with one statement each, by index', async () => {
  const { pool } = under.database;
  const shopId = await under.newShop();
  // Of many entries few are about assistants and apps, and of these few have ended.
  await pool.query(
    `insert into audit_log (shop_id, at, actor_kind, actor_id, actor_name, action, subject, detail)
     select $1, now() - i * interval '1 minute', 'user', (i % 50)::text, '',
            case i % 100 when 0 then 'assistant.connected' when 1 then 'assistant.disconnected'
                         when 2 then 'app.installed' when 3 then 'app.removed' else 'portal.update_webhook' end,
            (i / 100)::text, jsonb_build_object('user_id', (i % 50)::text, 'issuer', 'https://auth.example.com')
       from generate_series(1, 50000) i`,
    [shopId],
  );
  await vacuum(under.database.migratorUrl);
  const recorded = recordingPool(under.database.url);
  try {
    for (const read of [
      () => listEndedGrants(recorded.pool, { shopId }),
      () => listEndedGrants(recorded.pool, { shopId, userId: 1n }),
      () => listRemovedApps(recorded.pool, shopId),
    ]) {
      recorded.taken();
      expect((await read()).ended.length).toBeGreaterThan(0);
      const statements = recorded.taken();
      expect(statements).toHaveLength(1);
      for (const statement of statements) {
        const cost = await costOf(pool, statement);
        expect(cost.scans).toEqual([]);
        expect(cost.buffers).toBeLessThan(8_000);
      }
    }
  } finally {
    await recorded.pool.end();
  }
});
