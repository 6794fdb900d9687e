import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type pg from 'pg';
import { storeGrant } from '../../../gateway/oauth/tokens/issue.ts';
import { recordAudit } from '../../../gateway/tenancy/audit.ts';
import { installApp } from '../../../gateway/tenancy/installations.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { personOf } from '../../kit/mcp/shared-stack.ts';
import { callPortal } from '../../kit/portal/call.ts';
import { gatewayPool, userIdOf } from '../../kit/portal/gateway-pool.ts';
import { userForTests, type Visitor } from '../../kit/portal/visitor.ts';

// Assistants and partner apps whose access has ended stay visible.

const owner = userForTests('owner');
let analyst: Visitor;
let database: pg.Pool;
beforeAll(async () => {
  analyst = await owner.visit('analyst');
  database = gatewayPool(owner.stack);
});
afterAll(() => database?.end());

const idOf = (name: string) => userIdOf(database, owner.stack, name);

/** Connects an assistant of a user, as the consent page does. Returns its id. */
async function connect(app: string, name = 'analyst'): Promise<string> {
  const [id, clientId, shopId] = [randomUUID(), 'rms-mcp', BigInt(owner.stack.shop.id)];
  const userId = await idOf(name);
  await storeGrant(database, id, { userId, shopId, clientId, app });
  await recordAudit(database, {
    shopId,
    by: { actor: { kind: Actor_Kind.USER, id: String(userId), name } },
    action: 'assistant.connected',
    subject: id,
    detail: { client_id: clientId, app },
  });
  return id;
}

test('assistants whose access has ended are listed, folded, for the owner and for their person', async () => {
  const [ended, expired] = [`${randomUUID()}.example`, `${randomUUID()}.example`];
  const assistantId = await connect(ended);
  await connect(expired);
  await database.query('delete from oauth_grants where app = $1', [expired]);
  await callPortal(owner.page, 'AssistantsService/DisconnectAssistant', { assistantId });
  for (const [visitor, person, by] of [
    [owner, personOf(owner.stack, 'analyst').email, 'disconnected by you'],
    [analyst, 'You', 'disconnected by owner'],
  ] as const) {
    const { page } = visitor;
    await visitor.open('/assistants');
    const rowOf = (app: string) => page.getByRole('row').filter({ hasText: app });
    expect(await rowOf(ended).count()).toBe(0);
    await page.locator('summary').getByText('whose access has ended').click();
    await rowOf(ended).filter({ hasText: person }).getByText(by).waitFor();
    await rowOf(expired).getByText('Expired').waitFor();
    expect(await visitor.findings()).toEqual([]);
  }
  await analyst.page.getByText(/^These are (all of the last 13 months|the 50)/).waitFor();
  expect(await analyst.page.getByRole('link', { name: /audit log/ }).count()).toBe(0);
});

test('the connections of an assistant end together, also when one has expired in the meantime', async () => {
  const { page } = owner;
  const app = `${randomUUID()}.example`;
  const [, expired] = [await connect(app), await connect(app), await connect(app)];
  // The page may fold those that never called.
  await database.query('update oauth_grants set last_used_at = now() where app = $1', [app]);
  await owner.open('/assistants');
  const row = page.getByRole('row').filter({ hasText: app });
  await row.getByText('3 connections').waitFor();
  await database.query('delete from oauth_grants where id = $1', [expired]);
  await row.getByRole('button', { name: /^Disconnect/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Disconnect' }).click();
  await page.getByText('The assistant is disconnected.').waitFor();
  const left = 'select id from oauth_grants where app = $1 and revoked_at is null';
  expect((await database.query(left, [app])).rows).toEqual([]);
  expect(owner.problems()).toEqual([expect.stringContaining('404')]);
});

test('what an assistant did has its reason in the audit log, and a link to its connection, also after that has ended', async () => {
  const { page } = owner;
  const app = `${randomUUID()}.example`;
  const assistantId = await connect(app, 'owner');
  const { id } = await owner.stack.fixture('open');
  const flag = { idempotencyKey: randomUUID(), returnId: String(id), reasons: ['Looks odd'] };
  await callPortal(page, 'ReturnsService/FlagReturn', flag);
  const actor = { kind: Actor_Kind.USER, id: String(await idOf('owner')), name: 'owner' };
  await recordAudit(database, {
    shopId: BigInt(owner.stack.shop.id),
    by: { actor, source: '192.0.2.1', requestId: randomUUID() },
    action: 'mcp.flag_return',
    subject: String(id),
    detail: { call: randomUUID(), phase: 'done', client_id: 'rms-mcp', app },
  });
  for (const fold of ['that never called', 'whose access has ended']) {
    await owner.open(`/audit-log?return=${id}&action=mcp.flag_return`);
    const entry = page.getByRole('row').filter({ hasText: app });
    await entry.getByText('Looks odd').waitFor();
    expect(await owner.findings()).toEqual([]);
    await entry.getByRole('link', { name: `Assistant ${app}` }).click();
    const opened = page.locator('details[open]').filter({ hasText: fold });
    await opened.getByRole('row').filter({ hasText: app }).waitFor();
    expect(await owner.findings()).toEqual([]);
    if (fold === 'that never called') {
      await callPortal(page, 'AssistantsService/DisconnectAssistant', { assistantId });
    }
  }
});

test('a removed partner app is listed, with who removed it', async () => {
  const { page } = owner;
  const clientId = `app-${randomUUID()}`;
  await installApp(database, {
    shopId: BigInt(owner.stack.shop.id),
    issuer: 'https://auth.example.com',
    clientId,
    by: { actor: { kind: Actor_Kind.SYSTEM, id: 'admin', name: 'Operator' } },
  });
  await owner.open('/partner-apps');
  const row = page.getByRole('row').filter({ hasText: clientId });
  await page.getByRole('button', { name: `Remove ${clientId}` }).click();
  await page.getByRole('button', { name: 'Remove the app' }).click();
  await row.waitFor({ state: 'detached' });
  await page.locator('summary').getByText('removed').click();
  await row.getByText('by you').waitFor();
  expect(await owner.findings()).toEqual([]);
});
