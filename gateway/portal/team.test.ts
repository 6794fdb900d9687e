import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { AppsService } from '../../proto/gen/rms/portal/v1/apps_pb.ts';
import { AssistantsService } from '../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { TeamService } from '../../proto/gen/rms/portal/v1/team_pb.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { recordAudits } from '../tenancy/audit.ts';
import { installApp } from '../tenancy/installations.ts';
import { addMember } from '../tenancy/members.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

/** A new shop with an owner. */
async function newOwner(): Promise<PortalPerson> {
  return portalPerson(under, { shopId: await under.newShop(), role: 'owner' });
}

/** Adds a member to the owner's shop. Returns the user's id. */
async function newMember({ shopId }: PortalPerson, email: string): Promise<string> {
  const member = { shopId, email, name: 'Bo', role: 'analyst', by: TEST_AUTHOR } as const;
  return String((await addMember(under.database.pool, member)).userId);
}

async function codeOf(call: Promise<unknown>): Promise<Code | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );
}

describe('team', () => {
  test('changes and removes members', async () => {
    const owner = await newOwner();
    const team = owner.client(TeamService);
    const email = `${crypto.randomUUID()}@example.com`;
    const userId = await newMember(owner, email);
    const member = (await team.listMembers({})).members.find((one) => one.userId === userId);
    expect(member).toMatchObject({
      email,
      name: 'Bo',
      role: 'analyst',
      signedIn: false,
      editable: true,
    });
    expect((await team.changeRole({ userId, role: 'warehouse' })).member?.role).toBe('warehouse');
    await team.removeMember({ userId });
    expect((await team.listMembers({})).members.map((one) => one.email)).toEqual([owner.email]);
    expect(await codeOf(team.removeMember({ userId }))).toBe(Code.NotFound);
  });

  test('keeps an owner, and lets only owners change owners', async () => {
    const owner = await newOwner();
    const admin = await portalPerson(under, { shopId: owner.shopId, role: 'admin' });
    const team = admin.client(TeamService);
    const userId = String(owner.userId);
    const { members, assignableRoles } = await team.listMembers({});
    expect(members.find((one) => one.userId === userId)?.editable).toBe(false);
    expect(assignableRoles).not.toContain('owner');
    expect(await codeOf(team.removeMember({ userId }))).toBe(Code.PermissionDenied);
    expect(await codeOf(team.changeRole({ userId: String(admin.userId), role: 'owner' }))).toBe(
      Code.PermissionDenied,
    );
    expect(await codeOf(owner.client(TeamService).removeMember({ userId }))).toBe(
      Code.FailedPrecondition,
    );
  });

  test('changes only the role that the user saw, and says which one it is now', async () => {
    const owner = await newOwner();
    const team = owner.client(TeamService);
    const email = `${crypto.randomUUID()}@example.com`;
    const userId = await newMember(owner, email);
    const change = (expectedRole: string, role: string) =>
      team.changeRole({ userId, role, expectedRole });
    await change('analyst', 'warehouse');
    // The repeat of a call whose answer was lost.
    await change('analyst', 'warehouse');
    await change('', 'developer');
    await expect(change('warehouse', 'analyst')).rejects.toMatchObject({
      code: Code.FailedPrecondition,
      rawMessage: expect.stringContaining('is now developer'),
    });
    const { members } = await team.listMembers({});
    expect(members.find((one) => one.userId === userId)?.role).toBe('developer');
  });

  test('a blank name is no name, and what nobody sees is no part of an address', async () => {
    const team = (await newOwner()).client(TeamService);
    const email = `${crypto.randomUUID()}@example.com`;
    const key = () => ({ idempotencyKey: crypto.randomUUID(), role: 'analyst' });
    const { invitation } = await team.inviteMember({ ...key(), email, name: ' \u{a0}' });
    expect(invitation).toMatchObject({ email, name: '' });
    const hidden = { ...key(), email: `${email}\u{200b}` };
    expect(await codeOf(team.inviteMember(hidden))).toBe(Code.InvalidArgument);
  });

  test('a text that the database cannot store is the fault of the caller', async () => {
    const owner = await newOwner();
    const nul = 'a\0b';
    const idempotencyKey = crypto.randomUUID();
    const invited = { idempotencyKey, email: `${idempotencyKey}@example.com`, role: 'analyst' };
    const invite = owner.client(TeamService).inviteMember({ ...invited, name: nul });
    expect(await codeOf(invite)).toBe(Code.InvalidArgument);
    const listed = owner.client(AuditService).listAuditEntries({ filter: { text: nul } });
    expect(await codeOf(listed)).toBe(Code.InvalidArgument);
  });

  test('does not know members of another shop', async () => {
    const [owner, stranger] = [await newOwner(), await newOwner()];
    const userId = String(stranger.userId);
    const team = owner.client(TeamService);
    expect(await codeOf(team.changeRole({ userId, role: 'analyst' }))).toBe(Code.NotFound);
    expect(await codeOf(team.removeMember({ userId }))).toBe(Code.NotFound);
  });

  test('shows what each role may do, through every door', async () => {
    const analyst = await portalPerson(under, { shopId: 1n, role: 'analyst' });
    const { roles, actions } = await analyst.client(TeamService).listRoles({});
    expect(roles.map(({ name }) => name)).toContain('warehouse');
    expect(actions).toContainEqual(
      expect.objectContaining({
        description: 'Process a return: pays refunds, issues gift cards, places exchange orders',
        roles: ['owner', 'admin', 'returns_agent'],
        mcp: ['process_return'],
        rest: ['POST /warehouse/return/{id}/process'],
        scope: 'returns',
      }),
    );
  });
});

describe('audit log', () => {
  test('is read by page and filter, of the own shop only', async () => {
    const owner = await newOwner();
    const entries = [1, 2, 3].map((n) => ({
      shopId: owner.shopId,
      by: TEST_AUTHOR,
      action: 'test.done',
      subject: String(n),
    }));
    await recordAudits(under.database.pool, entries);
    const audit = owner.client(AuditService);
    const filter = { action: 'test.*' };
    const first = await audit.listAuditEntries({ filter, pageSize: 2 });
    expect(first.entries.map(({ subject }) => subject)).toEqual(['3', '2']);
    const second = await audit.listAuditEntries({ filter, pageSize: 2, cursor: first.nextCursor });
    expect(second.entries.map(({ subject }) => subject)).toEqual(['1']);
    expect(second.nextCursor).toBe('');
    const stranger = (await newOwner()).client(AuditService);
    expect((await stranger.listAuditEntries({ filter })).entries).toEqual([]);
    const foreign = { filter, cursor: first.nextCursor };
    expect(await codeOf(stranger.listAuditEntries(foreign))).toBe(Code.NotFound);
  });

  test('is searched in every spelling of Unicode', async () => {
    const owner = await newOwner();
    const by = { ...TEST_AUTHOR, actor: { ...TEST_AUTHOR.actor, name: 'Ren\u{e9}e' } };
    await recordAudits(under.database.pool, [
      { shopId: owner.shopId, by, action: 'test.done', subject: '1' },
      { shopId: owner.shopId, by: TEST_AUTHOR, action: 'test.done', subject: 'Ame\u{301}lie' },
    ]);
    const found = async (text: string) =>
      (await owner.client(AuditService).listAuditEntries({ filter: { text } })).entries.map(
        ({ subject }) => subject,
      );
    expect(await found('REN\u{c9}E')).toEqual(['1']);
    expect(await found('rene\u{301}e')).toEqual(['1']);
    expect(await found('am\u{e9}lie')).toEqual(['Ame\u{301}lie']);
  });

  test('is exported as CSV', async () => {
    const owner = await newOwner();
    const by = { ...TEST_AUTHOR, actor: { ...TEST_AUTHOR.actor, name: '=HYPERLINK("x")' } };
    const entry = { shopId: owner.shopId, by, action: 'test.done', subject: 'a,b' };
    await recordAudits(under.database.pool, [entry]);
    const filter = { action: 'test.done' };
    const { csv, nextCursor } = await owner.client(AuditService).exportAuditEntries({ filter });
    const [header, line] = csv.split('\r\n');
    expect(header?.replaceAll('"', '')).toBe(
      'id,at,actor_kind,actor_id,actor_name,actor_email,source,request_id,what,action,outcome,object_kind,subject,object_name,changes,detail,act',
    );
    expect(line).toContain(`"'=HYPERLINK(""x"")"`);
    expect(line).toContain('"a,b"');
    expect(nextCursor).toBe('');
  });
});

describe('apps and assistants', () => {
  test('apps are listed and removed, of the own shop only', async () => {
    const owner = await newOwner();
    const app = { issuer: 'https://auth.example.com', clientId: 'app-1' };
    await installApp(under.database.pool, { ...app, shopId: owner.shopId, by: TEST_AUTHOR });
    const stranger = (await newOwner()).client(AppsService);
    expect((await stranger.listApps({})).apps).toEqual([]);
    expect(await codeOf(stranger.removeApp(app))).toBe(Code.NotFound);
    const apps = owner.client(AppsService);
    expect((await apps.listApps({})).apps).toMatchObject([app]);
    await apps.removeApp(app);
    expect((await apps.listApps({})).apps).toEqual([]);
  });

  test('assistants: own ones; with team.manage those of the shop', async () => {
    const owner = await newOwner();
    const analyst = await portalPerson(under, { shopId: owner.shopId, role: 'analyst' });
    for (const [id, { userId }] of [
      ['a'.repeat(20), owner],
      ['b'.repeat(20), analyst],
    ] as const) {
      await under.database.pool.query(
        `insert into oauth_grants (shop_id, id, user_id, client_id, app, expires_at)
         values ($1, $2, $3, 'rms-mcp', 'claude.ai', now() + interval '1 day')`,
        [owner.shopId, id, userId],
      );
    }
    await under.database.pool.query(
      'update oauth_grants set last_used_at = now() where user_id = $1',
      [analyst.userId],
    );
    const { members } = await owner.client(TeamService).listMembers({});
    const calls = new Map(members.map(({ email, assistantUsedAt }) => [email, assistantUsedAt]));
    expect(calls.get(analyst.email)).toBeDefined();
    expect(calls.get(owner.email)).toBeUndefined();
    const own = analyst.client(AssistantsService);
    const { assistants } = await own.listAssistants({});
    expect(assistants).toMatchObject([
      { id: 'b'.repeat(20), app: 'claude.ai', own: true, role: 'analyst' },
    ]);
    expect(await codeOf(own.disconnectAssistant({ assistantId: 'a'.repeat(20) }))).toBe(
      Code.NotFound,
    );
    const all = owner.client(AssistantsService);
    await under.database.pool.query(
      "update oauth_grants set created_at = created_at - interval '1 day' where id = $1",
      ['a'.repeat(20)],
    );
    const page = await all.listAssistants({ pageSize: 1 });
    const rest = await all.listAssistants({ pageSize: 1, cursor: page.nextCursor });
    expect([...page.assistants, ...rest.assistants].map(({ id }) => id)).toEqual([
      'b'.repeat(20),
      'a'.repeat(20),
    ]);
    expect(rest.nextCursor).toBe('');
    expect(await codeOf(all.listAssistants({ cursor: 'x' }))).toBe(Code.InvalidArgument);
    await all.disconnectAssistant({ assistantId: 'b'.repeat(20) });
    expect((await own.listAssistants({})).assistants).toEqual([]);
  });
});
