import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ApiKeysService } from '../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { UsageService } from '../../proto/gen/rms/portal/v1/usage_pb.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { openersAmong, SCOPES, type Scope } from '../../services/contract/scopes.ts';
import { createInProcessBus } from '../../services/platform/bus/in-process.ts';
import { createLogger } from '../../services/platform/telemetry/log.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { rolesWith } from '../actions/rights.ts';
import { createApiKeyCheck } from '../auth/api-key-check.ts';
import { startVersionUsage } from '../auth/usage.ts';
import { addMember, removeMember } from '../tenancy/members.ts';
import type { Role } from '../tenancy/permissions.ts';

let under: TestGateway;
beforeAll(async () => {
  const bus = createInProcessBus();
  const mails = { SMTP_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'returns@example.com', bus };
  under = await startTestGateway(mails);
});
afterAll(() => under.stop());

async function newDeveloper(): Promise<PortalPerson> {
  return portalPerson(under, { shopId: await under.newShop(), role: 'developer' });
}

async function codeOf(call: Promise<unknown>): Promise<Code | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );
}

/** Whether the gateway accepts the key now. */
async function works(text: string): Promise<boolean> {
  return (await createApiKeyCheck(under.database.pool, () => {}).check(text)) !== undefined;
}

const DAY_MS = 86_400_000;
/** A key that a developer may make without an owner. */
const content = { description: 'Warehouse', scopes: ['developer_tools'] };
const key = (): string => crypto.randomUUID();

describe('API keys in the portal', () => {
  test('are shown once, with who made them', async () => {
    const developer = await newDeveloper();
    const keys = developer.client(ApiKeysService);
    const { key: created, text } = await keys.createApiKey({ ...content, idempotencyKey: key() });
    expect(text).toMatch(/^rms_[a-z0-9]{12}_/);
    expect(created).toMatchObject({
      ...content,
      state: 'valid',
      createdBy: { kind: 'user', name: 'Ada' },
    });
    expect(await works(text)).toBe(true);
    const listed = await keys.listApiKeys({});
    expect(
      JSON.stringify(listed, (_name, value) => (typeof value === 'bigint' ? `${value}` : value)),
    ).not.toContain(text);
  });

  test('that are new or rotated are mailed to the owners, once', async () => {
    const developer = await newDeveloper();
    const { shopId, userId } = developer;
    const { email } = await portalPerson(under, { shopId, role: 'owner' });
    const keys = developer.client(ApiKeysService);
    const request = { ...content, idempotencyKey: key() };
    await keys.createApiKey(request);
    const { key: made } = await keys.createApiKey(request);
    const { key: next } = await keys.rotateApiKey({
      keyId: made?.id ?? '',
      idempotencyKey: key(),
    });
    const { rows } = await under.database.pool.query(
      `select u.email, m.facts from mails m join users u on u.id = m.user_id
        where m.shop_id = $1 order by m.id`,
      [shopId],
    );
    const fact = { kind: 'api_key_made', user_id: String(userId), ...content };
    expect(rows).toMatchObject([
      { email, facts: [{ ...fact, key_id: made?.id, rotated: false }] },
      { email, facts: [{ ...fact, key_id: next?.id, rotated: true }] },
    ]);
  });

  test('a repeat whose response was lost gets the same key with another text', async () => {
    const developer = await newDeveloper();
    const keys = developer.client(ApiKeysService);
    const request = { ...content, idempotencyKey: key() };
    const [first, second] = await Promise.all([
      keys.createApiKey(request),
      keys.createApiKey(request),
    ]);
    expect(first.key?.id).toBe(second.key?.id);
    expect((await keys.listApiKeys({})).keys).toHaveLength(1);
    expect([await works(first.text), await works(second.text)].toSorted()).toEqual([false, true]);
    expect(await codeOf(keys.createApiKey({ ...request, scopes: ['carts'] }))).toBe(
      Code.AlreadyExists,
    );
    await under.database.pool.query('update api_keys set last_used_at = now() where key_id = $1', [
      first.key?.id,
    ]);
    expect(await codeOf(keys.createApiKey(request))).toBe(Code.AlreadyExists);
  });

  test('with a lifetime in days expire by the clock of the service, also when they are made by a repeat', async () => {
    const keys = (await newDeveloper()).client(ApiKeysService);
    const request = { ...content, lifetimeDays: 30, idempotencyKey: key() };
    const [from, first] = [Date.now(), await keys.createApiKey(request)];
    const expiresAt = 1_000 * Number(first.key?.expiresAt?.seconds);
    expect(expiresAt).toBeGreaterThan(from + 30 * DAY_MS - 1_000);
    expect(expiresAt).toBeLessThanOrEqual(Date.now() + 30 * DAY_MS);
    const repeated = await keys.createApiKey(request);
    expect(repeated.key?.id).toBe(first.key?.id);
    expect(await codeOf(keys.createApiKey({ ...request, lifetimeDays: 90 }))).toBe(
      Code.AlreadyExists,
    );
  });

  test.each([
    ['without a scope', { ...content, scopes: [] }],
    ['with an unknown scope', { ...content, scopes: ['everything'] }],
    ['without a description', { ...content, description: ' ' }],
    ['with a lifetime of no days', { ...content, lifetimeDays: 0 }],
    ['with a lifetime of more than ten years', { ...content, lifetimeDays: 3_651 }],
    [
      'with an expiry in the past',
      { ...content, expiresAt: timestampFromDate(new Date('2020-01-01')) },
    ],
  ])('are refused %s', async (_why, request) => {
    const keys = (await newDeveloper()).client(ApiKeysService);
    expect(await codeOf(keys.createApiKey({ ...request, idempotencyKey: key() }))).toBe(
      Code.InvalidArgument,
    );
    expect((await keys.listApiKeys({})).keys).toEqual([]);
  });

  test('are rotated with an overlap, once', async () => {
    const keys = (await newDeveloper()).client(ApiKeysService);
    const first = await keys.createApiKey({ ...content, idempotencyKey: key() });
    const keyId = first.key?.id ?? '';
    const request = { keyId, overlapHours: 1, idempotencyKey: key() };
    const rotated = await keys.rotateApiKey(request);
    expect(rotated.key).toMatchObject(content);
    expect(rotated.former).toMatchObject({
      id: keyId,
      state: 'valid',
      replacedBy: rotated.key?.id,
    });
    expect([await works(first.text), await works(rotated.text)]).toEqual([true, true]);
    const repeated = await keys.rotateApiKey(request);
    expect(repeated.key?.id).toBe(rotated.key?.id);
    expect(await codeOf(keys.rotateApiKey({ ...request, idempotencyKey: key() }))).toBe(
      Code.FailedPrecondition,
    );
    const again = { keyId: rotated.key?.id ?? '', overlapHours: 0, idempotencyKey: key() };
    await keys.rotateApiKey(again);
    expect(await works(repeated.text)).toBe(false);
  });

  test('that were replaced and still work are listed below the key that replaces them', async () => {
    const keys = (await newDeveloper()).client(ApiKeysService);
    const make = async () =>
      (await keys.createApiKey({ ...content, idempotencyKey: key() })).key?.id ?? '';
    const rotate = async (keyId: string, overlapHours = 1) =>
      (await keys.rotateApiKey({ keyId, overlapHours, idempotencyKey: key() })).key?.id ?? '';
    const [first, other] = [await make(), await make()];
    const second = await rotate(first);
    const third = await rotate(second);
    const newest = await make();
    const listed = async () => (await keys.listApiKeys({})).keys.map(({ id }) => id);
    expect(await listed()).toEqual([newest, third, second, first, other]);
    await keys.revokeApiKey({ keyId: second });
    expect(await listed()).toEqual([newest, third, other, first, second]);
  });

  test('are revoked for good', async () => {
    const keys = (await newDeveloper()).client(ApiKeysService);
    const { key: created, text } = await keys.createApiKey({ ...content, idempotencyKey: key() });
    const keyId = created?.id ?? '';
    expect((await keys.revokeApiKey({ keyId })).key?.state).toBe('revoked');
    expect(await works(text)).toBe(false);
    expect(await codeOf(keys.rotateApiKey({ keyId, idempotencyKey: key() }))).toBe(
      Code.FailedPrecondition,
    );
  });

  test('that have ended are listed up to the last hundred, and each is still found by its id', async () => {
    const developer = await newDeveloper();
    const keys = developer.client(ApiKeysService);
    const { key: valid } = await keys.createApiKey({ ...content, idempotencyKey: key() });
    // The keys that ended first were created last.
    const { rows } = await under.database.pool.query<{ id: string }>(
      `insert into api_keys (shop_id, key_id, secret_hash, scopes, description, created_by_kind, created_by_id,
                             created_at, expires_at, revoked_at)
       select $1::bigint, lpad(to_hex($1::bigint * 1000 + i), 12, '0'), sha256(i::text::bytea), '{}', '', 'system', 'test',
              now() - i * interval '1 day', now() - (200 - i) * interval '1 minute',
              case when i % 2 = 0 then now() - (200 - i) * interval '1 hour' end
         from generate_series(1, 102) i returning key_id as id`,
      [developer.shopId],
    );
    const ids = rows.map(({ id }) => id);
    const listed = (await keys.listApiKeys({})).keys;
    expect(listed[0]?.id).toBe(valid?.id);
    const expired = ids.filter((_, index) => index % 2 === 0);
    const revoked = ids.filter((_, index) => index % 2 === 1);
    // Of the revoked ones, which ended first, the two oldest ends are left out.
    expect(new Set(listed.slice(1).map(({ id }) => id))).toEqual(
      new Set([...expired, ...revoked.slice(2)]),
    );
    const { key: again } = await keys.revokeApiKey({ keyId: revoked[0] ?? '' });
    expect(again).toMatchObject({ id: revoked[0], state: 'revoked' });
  });

  test('of another shop do not exist', async () => {
    const own = (await newDeveloper()).client(ApiKeysService);
    const { key: created, text } = await own.createApiKey({ ...content, idempotencyKey: key() });
    const keyId = created?.id ?? '';
    const stranger = (await newDeveloper()).client(ApiKeysService);
    expect(await codeOf(stranger.revokeApiKey({ keyId }))).toBe(Code.NotFound);
    expect(await codeOf(stranger.rotateApiKey({ keyId, idempotencyKey: key() }))).toBe(
      Code.NotFound,
    );
    expect((await stranger.listApiKeys({})).keys).toEqual([]);
    expect(await works(text)).toBe(true);
  });

  test('name the operations of each scope, and its sentence', async () => {
    const developer = await newDeveloper();
    const { scopes } = await developer.client(ApiKeysService).listScopes({});
    expect(scopes.map(({ scope }) => scope)).toEqual([...SCOPES]);
    for (const { scope, description, operations } of scopes) {
      expect(description).toMatch(/^[A-Z].*\.$/);
      const opened = OPERATIONS.filter((one) => openersAmong([scope], one).length > 0);
      expect(operations).toEqual(opened.map(({ method, path }) => `${method} ${path}`));
    }
    const of = (name: string) => scopes.find(({ scope }) => scope === name);
    expect(of('returns')?.description).toContain('pays refunds');
    expect(of('warehouse')?.operations).toContain('POST /dispositioning/assess');
    expect(of('warehouse')?.operations).not.toContain('GET /warehouse/returns');
  });
});

describe('a key that may do more than the member who makes it', () => {
  /** Written by hand. Owners and admins may do everything that a key can do. */
  const OWN: Partial<Record<Role, readonly Scope[]>> = {
    owner: SCOPES,
    admin: SCOPES,
    developer: ['returns:read', 'developer_tools', 'labels:write', 'giftcards:write'],
  };

  test.each(rolesWith('changeDevelopers'))('waits for an owner, made by: %s', async (role) => {
    const maker = await portalPerson(under, { shopId: await under.newShop(), role });
    const keys = maker.client(ApiKeysService);
    const { scopes } = await keys.listScopes({});
    for (const { scope, needsOwner } of scopes) {
      const request = { description: scope, scopes: [scope], idempotencyKey: key() };
      const { key: made, text } = await keys.createApiKey(request);
      const isOwn = OWN[role]?.some((one) => one === scope) === true;
      const state = isOwn ? 'valid' : 'waiting';
      expect({ scope, needsOwner, state: made?.state, works: await works(text) }).toEqual({
        ...{ scope, needsOwner: !isOwn, state, works: isOwn },
      });
    }
  });

  /** A key of a developer that waits, with an owner of the shop. */
  async function waitingKey() {
    const developer = await newDeveloper();
    const owner = await portalPerson(under, { shopId: developer.shopId, role: 'owner' });
    const keys = developer.client(ApiKeysService);
    const request = { description: 'ERP', scopes: ['developer_tools', 'returns'] };
    const made = await keys.createApiKey({ ...request, idempotencyKey: key() });
    const [keyId, text] = [made.key?.id ?? '', made.text];
    return { developer, keys, owner, ownerKeys: owner.client(ApiKeysService), keyId, text };
  }
  const entriesAbout = async (keyId: string) =>
    (
      await under.database.pool.query(
        `select action, actor_id, detail->>'user_id' as maker from audit_log
          where subject = $1 and action like 'api_key.%' order by id`,
        [keyId],
      )
    ).rows.map((row) => Object.values(row));

  test('works when an owner has approved it, and the log and a mail say who asked and who approved', async () => {
    const { developer, keys, owner, ownerKeys, keyId, text } = await waitingKey();
    expect((await ownerKeys.listApiKeys({})).keys[0]).toMatchObject({
      id: keyId,
      state: 'waiting',
    });
    expect(await codeOf(keys.approveApiKey({ keyId }))).toBe(Code.PermissionDenied);
    expect(await codeOf(ownerKeys.rotateApiKey({ keyId, idempotencyKey: key() }))).toBe(
      Code.FailedPrecondition,
    );
    expect(await works(text)).toBe(false);
    for (let time = 0; time < 2; time += 1) {
      expect((await ownerKeys.approveApiKey({ keyId })).key?.state).toBe('valid');
    }
    expect(await works(text)).toBe(true);
    expect(await codeOf(ownerKeys.rejectApiKey({ keyId }))).toBe(Code.FailedPrecondition);
    expect(await entriesAbout(keyId)).toEqual([
      ['api_key.requested', String(developer.userId), null],
      ['api_key.approved', String(owner.userId), String(developer.userId)],
    ]);
    const { rows } = await under.database.pool.query(
      'select u.email, m.facts from mails m join users u on u.id = m.user_id where m.subject = $1',
      [`key:${keyId}`],
    );
    expect(rows).toMatchObject([
      { email: owner.email, facts: [{ waiting: true, scopes: ['developer_tools', 'returns'] }] },
    ]);
  });

  test('never works after a rejection, nor after its maker was removed', async () => {
    const [first, second] = [await waitingKey(), await waitingKey()];
    for (let time = 0; time < 2; time += 1) {
      expect((await first.ownerKeys.rejectApiKey(first)).key?.state).toBe('revoked');
    }
    const { shopId, email } = second.developer;
    await removeMember(under.database.pool, { shopId, email, by: TEST_AUTHOR });
    for (const { ownerKeys, keyId, text } of [first, second]) {
      expect(await codeOf(ownerKeys.approveApiKey({ keyId }))).toBe(Code.FailedPrecondition);
      expect(await works(text)).toBe(false);
      expect((await entriesAbout(keyId)).at(-1)?.[0]).toBe('api_key.rejected');
    }
  });

  test('that waits has a new text after a repeat, and still waits', async () => {
    const keys = (await newDeveloper()).client(ApiKeysService);
    const request = { ...content, scopes: ['carts'], idempotencyKey: key() };
    const texts = [await keys.createApiKey(request), await keys.createApiKey(request)];
    expect(texts.map((one) => one.key?.state)).toEqual(['waiting', 'waiting']);
    for (const { text } of texts) expect(await works(text)).toBe(false);
  });

  test('is rotated only by those who may do as much', async () => {
    const { keys, ownerKeys, developer, keyId, text } = await waitingKey();
    await ownerKeys.approveApiKey({ keyId });
    expect(await codeOf(keys.rotateApiKey({ keyId, idempotencyKey: key() }))).toBe(
      Code.PermissionDenied,
    );
    const { shopId } = developer;
    const admin = (await portalPerson(under, { shopId, role: 'admin' })).client(ApiKeysService);
    const rotated = await admin.rotateApiKey({ keyId, idempotencyKey: key() });
    expect(rotated.key?.state).toBe('valid');
    expect([await works(text), await works(rotated.text)]).toEqual([true, true]);
  });

  test('is not approved by somebody who is no longer an owner', async () => {
    const { owner, ownerKeys, keyId, text } = await waitingKey();
    const { shopId, email } = owner;
    await portalPerson(under, { shopId, role: 'owner' });
    await addMember(under.database.pool, { shopId, email, role: 'admin', by: TEST_AUTHOR });
    expect(await codeOf(ownerKeys.approveApiKey({ keyId }))).toBe(Code.PermissionDenied);
    expect(await works(text)).toBe(false);
  });
});

describe('usage by version', () => {
  test('says which key calls which version, what ends first at the top', async () => {
    const developer = await newDeveloper();
    const { key: created } = await developer
      .client(ApiKeysService)
      .createApiKey({ ...content, idempotencyKey: key() });
    const credentialId = created?.id ?? '';
    const { shopId } = developer;
    const use = { shopId, credentialKind: 'api_key', credentialId } as const;
    const operation = 'GET /warehouse/return/details';
    const counted = startVersionUsage(
      under.database.pool,
      createLogger({ service: 'test', level: 'silent' }),
    );
    counted.used({ ...use, requested: '2026-10', operation: 'POST /cart' });
    counted.used({ ...use, requested: 'v1', operation: 'POST /cart' });
    counted.used({ ...use, requested: 'v1', operation });
    await counted.stop();
    const again = startVersionUsage(
      under.database.pool,
      createLogger({ service: 'test', level: 'silent' }),
    );
    again.used({ ...use, requested: 'v1', operation });
    await again.stop();
    const { usage } = await developer.client(UsageService).listVersionUsage({});
    expect(usage).toMatchObject([
      {
        requested: 'v1',
        served: '2026-07',
        stage: 'active',
        credentialId,
        description: 'Warehouse',
        requests: '3',
        lastOperation: operation,
      },
      { requested: '2026-10', served: '2026-10', requests: '1' },
    ]);
    expect(usage[0]?.lastAt).toBeDefined();
    expect(Number(usage[0]?.endsAt?.seconds)).toBe(Date.UTC(2027, 9, 1) / 1_000);
    const stranger = (await newDeveloper()).client(UsageService);
    expect((await stranger.listVersionUsage({})).usage).toEqual([]);
    const [listed] = (await developer.client(ApiKeysService).listApiKeys({})).keys;
    expect(listed?.lastOperation).toBe(operation);
    await developer.client(ApiKeysService).revokeApiKey({ keyId: credentialId });
    const { usage: after } = await developer.client(UsageService).listVersionUsage({});
    expect([usage[0]?.credentialState, after[0]?.credentialState]).toEqual(['', 'revoked']);
  });
});
