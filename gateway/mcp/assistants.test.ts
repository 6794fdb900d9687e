import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { newKeyringText, parseKeyring } from '../../services/platform/security/keyring.ts';
import { auditLogOf } from '../../test/kit/gateway/audit-log.ts';
import {
  type McpBench,
  PUBLIC_URL,
  type SignedInMember,
  startMcpBench,
} from '../../test/kit/gateway/mcp.ts';
import { startTestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { storeGrant } from '../oauth/tokens/issue.ts';
import { assistantCalls, listAudit } from '../tenancy/audit-list.ts';
import { createCatalogue } from './catalogue.ts';
import { TOOLS } from './tools.ts';

const oauthKeyring = parseKeyring(newKeyringText());
let bench: McpBench;
beforeAll(async () => {
  bench = await startMcpBench({ OAUTH_KEYRING: oauthKeyring });
});
afterAll(() => bench?.stop());

const list = (member: SignedInMember, args = {}) =>
  bench.call(member.token, 'list_assistants', args);
const disconnect = (member: SignedInMember, assistant_id: string, more = {}) =>
  bench.call(member.token, 'disconnect_assistant', { assistant_id, ...more });
/** The ids of the assistants that the caller sees. */
const idsOf = async (viewer: SignedInMember, { userId }: SignedInMember): Promise<string[]> => {
  const { data } = await list(viewer, { limit: 50 });
  const all: { assistant_id: string; user: { id: number } }[] = data.assistants;
  return all.filter(({ user }) => user.id === Number(userId)).map((one) => one.assistant_id);
};
/** A later grant then comes second: grants of the same millisecond are in the order of their random ids. */
const connectEarlier = ({ userId }: SignedInMember) =>
  bench.database.pool.query(
    "update oauth_grants set created_at = created_at - interval '1 hour' where user_id = $1",
    [userId],
  );
const ownId = async (member: SignedInMember): Promise<string> =>
  (await idsOf(member, member))[0] ?? '';
const statusOf = async ({ token }: SignedInMember) => (await bench.rpc(token, 'tools/list')).status;

describe('list_assistants', () => {
  test("shows the user's own assistants, with client, app and times", async () => {
    const shopId = await bench.newShop();
    const [analyst] = [await bench.member('analyst', shopId), await bench.member('owner', shopId)];
    const claude = {
      userId: analyst.userId,
      shopId,
      clientId: 'https://claude.ai/oauth/mcp-oauth-client-metadata',
      app: 'claude.ai',
    };
    await connectEarlier(analyst);
    await storeGrant(bench.database.pool, randomUUID(), claude);
    const { data, text } = await list(analyst);
    expect(data).toMatchObject({
      assistants: [
        { client: 'rms-mcp', app: null, is_own: true, is_this_connection: true },
        { client: 'Claude', app: 'claude.ai', is_this_connection: false, last_used_at: null },
      ],
      next_cursor: null,
    });
    const [first] = data.assistants;
    const days = (Date.parse(first.expires_at) - Date.parse(first.connected_at)) / 86_400_000;
    expect(Math.round(days)).toBe(90);
    expect(text).not.toContain(analyst.email);
    expect(first.user).toMatchObject({ id: Number(analyst.userId), name: 'Ada' });
  });

  test('shows the name that a program on the machine gives itself, which stays', async () => {
    const member = await bench.member('owner', await bench.newShop());
    const { pool } = bench.database;
    const setApp = (app: string) =>
      pool.query('update oauth_grants set app = $2 where user_id = $1', [member.userId, app]);
    const initialize = (name: string) =>
      bench.rpc(member.token, 'initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name, version: '1' },
      });
    const shown = async () => (await list(member)).data.assistants[0].calls_itself;
    await setApp('claude.ai');
    await initialize('Agent');
    expect(await shown()).toBeNull();
    await setApp('127.0.0.1:51234');
    await initialize('claude.ai');
    expect(await shown()).toBeNull();
    await initialize('Agent');
    await initialize('Other');
    expect(await shown()).toBe('Agent');
    await bench.call(member.token, 'create_cart', { items: [{ variant_id: 1 }] });
    const made = { shop_id: member.shopId, action: 'mcp.create_cart' };
    expect(await auditLogOf(pool, made)).toMatchObject([{ detail: { calls_itself: 'Agent' } }]);
  });

  test('shows all assistants of the shop with team.manage, and none of another shop', async () => {
    const [shopId, otherShop] = [await bench.newShop(), await bench.newShop()];
    const analyst = await bench.member('analyst', shopId);
    const [admin, stranger] = [
      await bench.member('admin', shopId),
      await bench.member('owner', otherShop),
    ];
    expect(await idsOf(admin, analyst)).toHaveLength(1);
    expect(await idsOf(analyst, admin)).toEqual([]);
    expect(await idsOf(stranger, analyst)).toEqual([]);
  });

  test('has pages, oldest first, without ended grants', async () => {
    const shopId = await bench.newShop();
    const member = await bench.member('warehouse', shopId);
    const { pool } = bench.database;
    for (let count = 0; count < 4; count += 1) {
      await storeGrant(pool, randomUUID(), { ...member, clientId: `c${count}` });
    }
    // All have the same creation time, so they are ordered by id.
    await pool.query(
      "update oauth_grants set created_at = date_trunc('day', now()) where user_id = $1",
      [member.userId],
    );
    await pool.query("update oauth_grants set expires_at = now() where client_id = 'c3'");
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const { data } = await list(member, { limit: 1, ...(cursor !== null && { cursor }) });
      seen.push(...data.assistants.map(({ client }: { client: string }) => client));
      cursor = data.next_cursor;
    } while (cursor !== null && seen.length < 10);
    expect(seen.toSorted()).toEqual(['c0', 'c1', 'c2', 'rms-mcp']);
  });

  test.each([
    'x',
    Buffer.from('2026-99-99T00:00:00.000Z abcdefghijklmnopqrst').toString('base64url'),
  ])('rejects the cursor %s', async (cursor) => {
    const result = await list(await bench.member('owner'), { cursor });
    expect(result).toMatchObject({
      isError: true,
      text: expect.stringContaining('cursor must be the next_cursor'),
    });
  });
});

describe('an assistant that may only read', () => {
  test('gets only tools that only read, and no other call is executed', async () => {
    const owner = await bench.member('owner');
    const token = await bench.tokenFor({ ...owner, isReadOnly: true });
    const reader = { ...owner, token };
    const listed = (await bench.rpc(token, 'tools/list')).body.result.tools;
    expect(listed.map(({ name }: { name: string }) => name)).toEqual(
      createCatalogue().readOnly.owner.map(({ name }) => name),
    );
    for (const tool of TOOLS) {
      const { name } = tool;
      const result = await bench.call(token, name, await bench.goodCall(reader, tool.name));
      expect([name, result.isError]).toEqual([name, !tool.hints.readOnly.is]);
      if (result.isError) expect(result.text).toMatch(/^Unauthorized: .* allowed .* only to read/);
    }
    const entries = await auditLogOf(bench.database.pool, { actor_id: String(owner.userId) });
    expect(entries.filter(({ detail }) => detail.phase !== undefined)).toEqual([]);
  });

  test('sees this itself, and so do the others in the shop', async () => {
    const shopId = await bench.newShop();
    const admin = await bench.member('admin', shopId);
    const analyst = await bench.member('analyst', shopId);
    await connectEarlier(analyst);
    const token = await bench.tokenFor({ ...analyst, isReadOnly: true });
    const context = await bench.call(token, 'get_shop_context');
    expect(context.data.user).toMatchObject({ role: 'analyst', read_only: true });
    const { data } = await list(admin, { limit: 50 });
    const rights = data.assistants
      .filter(({ user }: { user: { id: number } }) => user.id === Number(analyst.userId))
      .map(({ role, read_only }: { role: string; read_only: boolean }) => [role, read_only]);
    expect(rights).toEqual([
      ['analyst', false],
      ['analyst', true],
    ]);
  });
});

describe('disconnect_assistant', () => {
  test("ends the user's own assistant, and is audited", async () => {
    const shopId = await bench.newShop();
    const member = await bench.member('developer', shopId);
    await connectEarlier(member);
    const other = { ...member, token: await bench.tokenFor(member) };
    const [first = '', second = ''] = await idsOf(member, member);
    expect(await statusOf(other)).toBe(200);
    expect(await disconnect(member, second)).toMatchObject({
      isError: false,
      data: { assistant_id: second, disconnected: true },
    });
    expect([await statusOf(member), await statusOf(other)]).toEqual([200, 401]);
    expect(await idsOf(member, member)).toEqual([first]);
    const { rows } = await bench.database.pool.query(
      `select action, actor_id, source, request_id, detail->>'why' as why from audit_log
        where shop_id = $1 and action = 'assistant.disconnected' and subject = $2`,
      [shopId, second],
    );
    expect(rows).toEqual([
      {
        action: 'assistant.disconnected',
        actor_id: String(member.userId),
        source: '127.0.0.1',
        request_id: expect.any(String),
        why: 'revoked',
      },
    ]);
    const { pool } = bench.database;
    await auditLogOf(pool, { shop_id: shopId });
    const entries = await listAudit(pool, { shopId, action: 'assistant.disconnected', limit: 1 });
    const calls = await assistantCalls(pool, shopId, entries);
    expect([...calls.values()]).toMatchObject([{ action: 'mcp.disconnect_assistant' }]);
  });

  test('is idempotent, and may end its own connection', async () => {
    const member = await bench.member('analyst', await bench.newShop());
    await connectEarlier(member);
    await bench.tokenFor(member);
    const [own = '', other = ''] = await idsOf(member, member);
    for (const key of [undefined, 'a', 'a', 'b']) {
      const more = key === undefined ? {} : { idempotency_key: key };
      expect(await disconnect(member, other, more)).toMatchObject({ isError: false });
    }
    const { rowCount } = await bench.database.pool.query(
      "select from audit_log where action = 'assistant.disconnected' and subject = $1",
      [other],
    );
    expect(rowCount).toBe(1);
    expect(await disconnect(member, own)).toMatchObject({ isError: false });
    expect(await statusOf(member)).toBe(401);
  });

  test("ends other members' assistants only with team.manage, and never those of another shop", async () => {
    const [shopId, otherShop] = [await bench.newShop(), await bench.newShop()];
    const [analyst, agent, admin, stranger] = [
      await bench.member('analyst', shopId),
      await bench.member('returns_agent', shopId),
      await bench.member('admin', shopId),
      await bench.member('owner', otherShop),
    ];
    const id = await ownId(analyst);
    for (const caller of [agent, stranger]) {
      expect(await disconnect(caller, id)).toMatchObject({
        isError: true,
        text: expect.stringContaining('the user may not disconnect it'),
      });
    }
    expect(await statusOf(analyst)).toBe(200);
    expect(await disconnect(admin, id)).toMatchObject({ isError: false });
    expect(await statusOf(analyst)).toBe(401);
  });

  test('ends the access on another replica immediately', async () => {
    const member = await bench.member('owner', await bench.newShop());
    const replica = await startTestGateway({
      DATABASE_URL: bench.database.url,
      PUBLIC_BASE_URL: PUBLIC_URL,
      OAUTH_KEYRING: oauthKeyring,
      MCP_REQUESTS_PER_MINUTE: 100_000,
      MCP_REFUSED_PER_MINUTE: 100_000,
    });
    const ask = () =>
      fetch(`http://127.0.0.1:${replica.gateway.port}/mcp`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${member.token}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
      });
    const before = (await ask()).status;
    await disconnect(member, await ownId(member));
    const after = (await ask()).status;
    await replica.stop();
    expect([before, after]).toEqual([200, 401]);
  });
});
