import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ApiKeysService } from '../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { TeamService } from '../../proto/gen/rms/portal/v1/team_pb.ts';
import {
  SubscriptionStatus,
  WebhooksService,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { sql, unnamed } from '../../services/platform/postgres/sql.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { until } from '../../test/kit/until.ts';
import { recordAudits } from '../tenancy/audit.ts';
import { entriesOf, searchAudit } from '../tenancy/audit-list.ts';
import { addMember } from '../tenancy/members.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

const newOwner = async (): Promise<PortalPerson> =>
  portalPerson(under, { shopId: await under.newShop(), role: 'owner' });

/** Waits until one of the entries with the text has this outcome. Returns the entries, newest first. */
async function found(owner: PortalPerson, text: string, outcome = '') {
  const audit = owner.client(AuditService);
  let entries: Awaited<ReturnType<typeof audit.listAuditEntries>>['entries'] = [];
  await until(async (see) => {
    ({ entries } = await audit.listAuditEntries({ filter: { text } }));
    return see(entries.map((entry) => entry.outcome)).includes(outcome);
  });
  return entries;
}

describe('an entry of the audit log', () => {
  test('says who changed a webhook by name and address, and the address from and to, without secrets', async () => {
    const owner = await newOwner();
    under.services.webhooks.updateSubscription = () => ({
      subscription: {
        id: FAKE.webhook,
        topic: 'return',
        trigger: 'return.closed',
        url: 'https://new.example.com/in?key=s3cret',
        status: SubscriptionStatus.ACTIVE,
      },
      previous: {
        topic: 'return',
        trigger: 'return.closed',
        url: 'https://old.example.com/in?key=0ld',
        status: SubscriptionStatus.INACTIVE,
      },
    });
    const url = 'https://new.example.com/in?key=s3cret';
    const change = { subscriptionId: FAKE.webhook, url, idempotencyKey: randomUUID() };
    await owner.client(WebhooksService).updateSubscription(change);
    under.resetServices();

    const [entry] = await found(owner, 'change a webhook', 'done');
    expect(entry).toMatchObject({
      what: 'Change a webhook',
      outcome: 'done',
      byEmail: owner.email,
      by: { kind: 'user', id: String(owner.userId), name: 'Ada' },
      objectKind: 'webhook',
      subject: String(FAKE.webhook),
      changes: [
        {
          field: 'url',
          from: 'https://old.example.com/in?key=…',
          to: 'https://new.example.com/in?key=…',
        },
        { field: 'status', from: 'inactive', to: 'active' },
      ],
    });
    const { rows } = await under.database.pool.query<{ row: string }>(
      'select audit_log::text as row from audit_log where shop_id = $1',
      [owner.shopId],
    );
    expect(rows.filter(({ row }) => /s3cret|0ld/.test(row))).toEqual([]);
  });

  test('says how long the former secret signs, and has no secret', async () => {
    const owner = await newOwner();
    const rotation = { subscriptionId: FAKE.webhook, idempotencyKey: randomUUID() };
    const { secret } = await owner
      .client(WebhooksService)
      .rotateSecret({ ...rotation, overlapHours: 48 });
    const [entry] = await found(owner, 'rotate the signing secret', 'done');
    expect(entry?.changes).toMatchObject([{ field: 'overlap_hours', from: '', to: '48' }]);
    expect(secret?.value).toMatch(/^whsec_/);
    expect(
      JSON.stringify(entry, (_key, value) => (typeof value === 'bigint' ? `${value}` : value)),
    ).not.toContain('whsec_');
  });

  test('names the member and the role before and after', async () => {
    const owner = await newOwner();
    const team = owner.client(TeamService);
    const email = `${randomUUID()}@example.com`;
    const { userId } = await addMember(under.database.pool, {
      shopId: owner.shopId,
      email,
      name: 'Bo',
      role: 'analyst',
      by: TEST_AUTHOR,
    });
    await team.changeRole({ userId: String(userId), role: 'developer' });
    const [entry] = (await found(owner, email)).filter(
      ({ action }) => action === 'member.role_changed',
    );
    expect(entry).toMatchObject({
      act: 'change_role',
      what: 'Change the role of a member',
      objectKind: 'member',
      objectName: `Bo, ${email}`,
      changes: [{ field: 'role', from: 'analyst', to: 'developer' }],
    });
  });

  test('has the scopes and the name of an API key', async () => {
    const owner = await newOwner();
    const description = `Warehouse ${randomUUID()}`;
    await owner.client(ApiKeysService).createApiKey({
      description,
      scopes: ['returns', 'carts'],
      idempotencyKey: randomUUID(),
    });
    const entries = await found(owner, description);
    expect(entries.find(({ action }) => action === 'api_key.created')).toMatchObject({
      objectKind: 'key',
      objectName: description,
      changes: [{ field: 'scopes', to: 'returns, carts' }],
    });
  });
});

describe('the search in the audit log', () => {
  const entry = (shopId: bigint, more: object) => ({
    shopId,
    by: TEST_AUTHOR,
    action: 'shop.restock.set',
    subject: '7',
    ...more,
  });

  test('finds a part of an id, a value, an action in words, in any letters, of the own shop only', async () => {
    const owner = await newOwner();
    const { shopId } = owner;
    await recordAudits(under.database.pool, [
      entry(shopId, { subject: 'AB-1234-x' }),
      entry(shopId, { detail: { mode: 'Everything_Else' } }),
      entry(shopId, { subject: '8', detail: { mode: 'a "quoted" \\ text' } }),
      entry(shopId, { action: 'rest.createWebhook', detail: { call: 'c-1', phase: 'done' } }),
    ]);
    const audit = owner.client(AuditService);
    const actionsFor = async (text: string) => {
      const { entries } = await audit.listAuditEntries({ filter: { text } });
      return entries.map(({ action, subject }) => `${action} ${subject}`);
    };
    expect(await actionsFor('ab-1234')).toEqual(['shop.restock.set AB-1234-x']);
    expect(await actionsFor('everything_else')).toEqual(['shop.restock.set 7']);
    expect(await actionsFor('"Quoted" \\')).toEqual(['shop.restock.set 8']);
    expect(await actionsFor('CREATE WEBHOOK')).toEqual(['rest.createWebhook 7']);
    // Every entry of a call has a phase. The search does not read it, because it is not a part of the change.
    expect(await actionsFor('phase')).toEqual([]);
    expect(await actionsFor("%' or true --")).toEqual([]);
    const other = (await newOwner()).client(AuditService);
    expect((await other.listAuditEntries({ filter: { text: 'ab-1234' } })).entries).toEqual([]);
  });

  test('reads a limited number of entries, and continues behind them', async () => {
    const { shopId } = await newOwner();
    const numbers = Array.from({ length: 25 }, (_, n) => n);
    await recordAudits(
      under.database.pool,
      numbers.map((n) => entry(shopId, { subject: n === 0 ? 'rare' : `other ${n}` })),
    );
    const search = { text: 'rare', actions: [] };
    const pages: string[][] = [];
    let before: bigint | undefined;
    do {
      const filter = { shopId, limit: 5, ...(before !== undefined && { before }) };
      const page = await searchAudit(under.database.pool, filter, search, { readMax: 10 });
      pages.push(page.entries.map(({ subject }) => subject));
      before = page.readTo?.id;
    } while (before !== undefined);
    // The shop has entries of its own owner, too; the oldest ones are read last.
    expect(pages.flat()).toEqual(['rare']);
    expect(pages.slice(0, 2)).toEqual([[], []]);
  });

  test('continues behind the last match of a full page', async () => {
    const { shopId } = await newOwner();
    const subjects = ['rare 1', 'x', 'rare 2', 'rare 3', 'y'];
    await recordAudits(
      under.database.pool,
      subjects.map((subject) => entry(shopId, { subject })),
    );
    const search = { text: 'rare', actions: [] };
    const first = await searchAudit(under.database.pool, { shopId, limit: 2 }, search);
    expect(first.entries.map(({ subject }) => subject)).toEqual(['rare 3', 'rare 2']);
    const before = first.readTo?.id ?? 0n;
    const second = await searchAudit(under.database.pool, { shopId, limit: 2, before }, search);
    expect([second.entries.map(({ subject }) => subject), second.readTo]).toEqual([
      ['rare 1'],
      undefined,
    ]);
  });
});

test('an export says how many entries it has, and so does its own entry', async () => {
  const owner = await newOwner();
  const entry = { shopId: owner.shopId, by: TEST_AUTHOR, action: 'api_key.revoked', subject: 'k1' };
  const lines = { ...entry, detail: { note: 'two\nlines' } };
  await recordAudits(under.database.pool, [entry, lines]);
  const audit = owner.client(AuditService);
  const filter = { action: 'api_key.revoked' };
  const { csv, entries } = await audit.exportAuditEntries({ filter, format: 'csv' });
  expect([csv.startsWith('"id",'), entries]).toEqual([true, 2]);
  const [exported] = await until(async () => {
    const exports = { filter: { action: 'portal.export_audit_log' } };
    const found = (await audit.listAuditEntries(exports)).entries;
    return found.some(({ outcome }) => outcome === 'done') && found;
  });
  expect(exported?.changes).toMatchObject([
    { field: 'entries', from: '', to: '2' },
    { field: 'format', from: '', to: 'csv' },
    { field: 'action', from: '', to: 'api_key.revoked' },
  ]);
});

test('the export as JSON has the same words as the list', async () => {
  const owner = await newOwner();
  const entry = { shopId: owner.shopId, by: TEST_AUTHOR, action: 'api_key.revoked', subject: 'k1' };
  await recordAudits(under.database.pool, [entry]);
  const request = { filter: { action: 'api_key.revoked' }, format: 'json' };
  const { jsonLines, csv } = await owner.client(AuditService).exportAuditEntries(request);
  expect(csv).toBe('');
  expect(
    jsonLines
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toMatchObject([
    {
      what: 'Revoke an API key',
      act: 'revoke_api_key',
      action: 'api_key.revoked',
      object: { kind: 'key', id: 'k1' },
      changes: [],
    },
  ]);
});

describe('the filters of the audit log', () => {
  test('offer the people and keys of the own shop, and every action that is recorded', async () => {
    const owner = await newOwner();
    const stranger = await newOwner();
    const content = { description: 'Warehouse', scopes: ['returns'] };
    const { key } = await owner
      .client(ApiKeysService)
      .createApiKey({ ...content, idempotencyKey: randomUUID() });
    const { actors, actions } = await owner.client(AuditService).listAuditChoices({});
    expect(actors).toMatchObject([
      { id: String(owner.userId), kind: 'user', name: 'Ada', email: owner.email },
      { id: key?.id, kind: 'api_key', name: 'Warehouse', email: '' },
    ]);
    expect(JSON.stringify(actors)).not.toContain(stranger.email);
    const words = new Map(actions.map((action) => [action.name, action.words]));
    expect(words.get('create_webhook')).toBe('Add a webhook');
    // Reads have no entries.
    expect([words.has('get_return_details'), words.has('get_return')]).toEqual([false, false]);
    expect(actions.map((action) => action.words)).toEqual(
      actions.map((action) => action.words).toSorted((a, b) => a.localeCompare(b, 'en')),
    );
  });

  test('find an act through every door, and everything about a thing', async () => {
    const owner = await newOwner();
    const of = (action: string) => ({
      shopId: owner.shopId,
      by: TEST_AUTHOR,
      action,
      subject: '7',
    });
    const ofReturn = ['portal.process_return', 'rest.processReturn', 'mcp.process_return'];
    const all = [...ofReturn, 'rest.gradeItems', 'rest.updateLabel', 'mcp.update_webhook'];
    await recordAudits(under.database.pool, all.map(of));
    const found = async (filter: { action?: string; thing?: string; actorId?: string }) => {
      const { entries } = await owner.client(AuditService).listAuditEntries({ filter });
      return entries.map(({ action }) => action).toSorted();
    };
    expect(await found({ action: 'process_return' })).toEqual(ofReturn.toSorted());
    expect(await found({ action: 'rest.processReturn' })).toEqual(['rest.processReturn']);
    expect(await found({ action: 'rest.*', thing: 'return' })).toEqual(
      ['rest.processReturn', 'rest.gradeItems', 'rest.updateLabel'].toSorted(),
    );
    expect(await found({ thing: 'return' })).toEqual(all.slice(0, 5).toSorted());
    expect(await found({ thing: 'webhook', actorId: TEST_AUTHOR.actor.id })).toEqual([
      'mcp.update_webhook',
    ]);
    expect(await found({ thing: 'webhook', action: 'process_return' })).toEqual([]);
    expect(await found({ thing: 'nothing' })).toEqual([]);
  });

  test.each([
    ['actor', { actor: 'somebody' }, 'audit_log_by_actor'],
    ['action', { action: 'portal.create_webhook' }, 'audit_log_by_action'],
    ['act', { actions: ['portal.create_webhook', 'rest.createWebhook'] }, 'audit_log_by_action'],
  ])('by %s are answered by an index', async (_name, filter, index) => {
    const { pool } = under.database;
    const shopId = await under.newShop();
    await pool.query(
      `insert into audit_log (shop_id, actor_kind, actor_id, actor_name, action, subject)
       select $1, 'user', 'a' || i % 500, '', 'action.' || i % 500, '' from generate_series(1, 5000) i`,
      [shopId],
    );
    await pool.query('analyze audit_log');
    const entries = await entriesOf(pool, { shopId, ...filter });
    const { rows } = await pool.query<Record<string, string>>(
      unnamed(sql`explain select id ${entries} limit 100`),
    );
    expect(rows.map((row) => row['QUERY PLAN']).join('\n')).toContain(index);
  });
});
