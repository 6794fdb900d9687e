import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { TeamService } from '../../proto/gen/rms/portal/v1/team_pb.ts';
import { ReturnSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { sql, unnamed } from '../../services/platform/postgres/sql.ts';
import { sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { vacuum } from '../../test/kit/postgres/plans.ts';
import { type AuditEntry, recordAudits } from '../tenancy/audit.ts';
import { entriesOf as entriesOfFilter } from '../tenancy/audit-list.ts';

let under: TestGateway;
let owner: PortalPerson;
beforeAll(async () => {
  under = await startTestGateway();
  owner = await portalPerson(under, { shopId: 1n, role: 'owner' });
});
afterAll(() => under.stop());

const key = { kind: Actor_Kind.API_KEY, id: 'k1', name: 'WMS' };
const user = () => ({ kind: Actor_Kind.USER, id: String(owner.userId), name: 'Ada' });
const call = { call: 'c', phase: 'done' };

function record(
  entries: readonly (Pick<AuditEntry, 'action' | 'subject'> & Partial<AuditEntry>)[],
) {
  const by = { actor: key, source: '192.0.2.1', requestId: crypto.randomUUID() };
  const all = entries.map((entry) => ({ shopId: 1n, by, detail: call, ...entry }));
  return recordAudits(under.database.pool, all);
}

async function entriesOf(filter: { text?: string; returnId?: string; action?: string }) {
  const { entries } = await owner.client(AuditService).listAuditEntries({ filter });
  return entries;
}

describe('the audit entries of a return', () => {
  beforeAll(async () => {
    const [line, ...others] = sampleReturn().lineItems ?? [];
    const lineId = String(line?.lineItemId);
    expect(others).toEqual([]);
    await record([
      { action: 'portal.cancel_return', subject: '11' },
      { action: 'rest.gradeItems', subject: lineId },
      // Another kind of object with the same id.
      { action: 'portal.update_webhook', subject: '11' },
      { action: 'portal.cancel_return', subject: '12' },
    ]);
    const [own, other] = [
      create(ReturnSchema, sampleReturn()),
      create(ReturnSchema, sampleReturn()),
    ];
    other.id = 12n;
    if (other.order) other.order.name = '#10010';
    under.services.returns.searchReturns = ({ query, includeArchived }) => ({
      returns: includeArchived && query.includes('1001') ? [own, other] : [],
    });
  });

  test.each([
    ['by its id', { returnId: '11' }],
    ['by the order name', { text: '#1001' }],
    ['by the order name without #', { text: '1001' }],
  ])('are found %s, with those of its line items', async (_name, filter) => {
    const found = (await entriesOf(filter)).map(({ action }) => action);
    expect(found).toEqual(['rest.gradeItems', 'portal.cancel_return']);
  });

  test('are found by an index', async () => {
    const { pool } = under.database;
    const shopId = await under.newShop();
    await pool.query(
      `insert into audit_log (shop_id, actor_kind, actor_id, actor_name, action, subject)
       select $1, 'user', 'a', '', 'portal.cancel_return', i::text from generate_series(1, 5000) i`,
      [shopId],
    );
    await vacuum(under.database.migratorUrl);
    const objects = [{ actions: ['portal.cancel_return'], subjects: ['7'] }];
    const { rows } = await pool.query<Record<string, string>>(
      unnamed(sql`explain select id ${await entriesOfFilter(pool, { shopId, objects })} limit 100`),
    );
    expect(rows.map((row) => row['QUERY PLAN']).join('\n')).toContain('audit_log_by_subject');
  });

  test('are found by the id of the return only, when both are given', async () => {
    expect(await entriesOf({ returnId: '11', text: 'change a webhook' })).toEqual([]);
  });
});

test('an entry says through what something was done, with the name of the key or assistant', async () => {
  const inPortal = { actor: user(), source: '192.0.2.1', requestId: crypto.randomUUID() };
  const by = { ...inPortal, requestId: crypto.randomUUID() };
  const client = { client_id: 'https://claude.ai/client' };
  const byClaude = { by, detail: { ...call, ...client, app: 'claude.ai' } };
  const ended = (why: string) => ({ ...client, app: 'ended.example', why });
  const service = { actor: { kind: Actor_Kind.SERVICE, id: 'gateway', name: 'Gateway' } };
  await record([
    { action: 'rest.processReturn', subject: '11' },
    { action: 'mcp.cancel_return', subject: '11', ...byClaude },
    { action: 'mcp.flag_return', subject: '11', by, detail: { ...call, ...client } },
    { action: 'portal.disconnect_assistant', subject: 'g1', by: inPortal },
    { action: 'assistant.disconnected', subject: 'g1', by: inPortal, detail: ended('revoked') },
    { action: 'mcp.disconnect_assistant', subject: 'g2', ...byClaude },
    { action: 'assistant.disconnected', subject: 'g2', by, detail: ended('revoked') },
    { action: 'assistant.disconnected', subject: 'g3', by, detail: ended('token_revoked') },
    {
      action: 'assistant.disconnected',
      subject: 'g4',
      by: service,
      detail: ended('token_reused'),
    },
    {
      action: 'shop.created',
      subject: '1',
      by: { actor: user(), source: 'npm run admin' },
      detail: {},
    },
  ]);
  // A filter shows one entry without the others of its request.
  const throughOf = async (action: string, of = '') =>
    (await entriesOf({ action })).find(({ subject }) => subject.includes(of))?.through;
  expect(await throughOf('rest.processReturn')).toBe('API key WMS');
  expect(await throughOf('mcp.cancel_return')).toBe('Assistant claude.ai');
  expect(await throughOf('mcp.flag_return')).toBe('Assistant https://claude.ai/client');
  expect(await throughOf('assistant.*', 'g1')).toBe('Portal');
  expect(await throughOf('assistant.*', 'g2')).toBe('Assistant claude.ai');
  expect(await throughOf('assistant.*', 'g3')).toBe('Assistant ended.example');
  expect(await throughOf('assistant.*', 'g4')).toBe('Service');
  expect(await throughOf('shop.created')).toBe('Command');

  await owner.client(TeamService).inviteMember({
    email: 'bo@example.com',
    name: 'Bo',
    role: 'analyst',
    idempotencyKey: randomUUID(),
  });
  const added = (await entriesOf({ text: 'invit' })).filter(
    ({ by }) => by?.id === String(owner.userId),
  );
  expect(added.map(({ action }) => action)).toContain('invitation.sent');
  expect(new Set(added.map(({ through }) => through))).toEqual(new Set(['Portal']));
});
