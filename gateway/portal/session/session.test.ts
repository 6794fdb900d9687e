import { once } from 'node:events';
import { request } from 'node:http';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ApiKeysService } from '../../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { SessionService } from '../../../proto/gen/rms/portal/v1/session_pb.ts';
import { TeamService } from '../../../proto/gen/rms/portal/v1/team_pb.ts';
import { inTransaction } from '../../../services/platform/postgres/postgres.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../../test/kit/gateway/test-gateway.ts';
import { portalClient, portalPerson } from '../../../test/kit/portal/portal.ts';
import { listAudit } from '../../tenancy/audit-list.ts';
import { endAccess } from '../../tenancy/end-access.ts';
import { addMember, removeMember } from '../../tenancy/members.ts';
import { linkAccount, unlinkAccount } from '../../tenancy/sign-in-accounts.ts';
import { createPortalSessions, type NewDevice, purgePortalSessions } from './sessions.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

type Person = Awaited<ReturnType<typeof portalPerson>>;
const owner = async (shopId = 1n) => portalPerson(under, { shopId, role: 'owner' });

async function codeOf(call: Promise<unknown>): Promise<Code | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );
}

const getUrl = (): string =>
  `${under.gateway.baseUrl}/portal/api/rms.portal.v1.SessionService/GetSession`;

function post(headers: Record<string, string>, url = getUrl(), body = '{}'): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    redirect: 'manual',
    body,
    headers: { 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1', ...headers },
  });
}

describe('session of the portal', () => {
  test('says who is signed in, where, and what the role may do', async () => {
    const person = await portalPerson(under, { shopId: 1n, role: 'analyst' });
    const session = await person.client(SessionService).getSession({});
    expect(session.user).toMatchObject({
      id: String(person.userId),
      email: person.email,
      name: 'Ada',
    });
    expect(session.shop).toMatchObject({ id: '1', name: 'Shop', currency: 'GBP', role: 'analyst' });
    expect(session.permissions).toEqual(['returns.view', 'fraud.view', 'reports.view']);
    expect(session.methods).toContain('rms.portal.v1.SessionService/GetSession');
    expect(session.session).toMatchObject({ device: 'Firefox on Linux', current: true });
  });

  test('is stored as a hash only', async () => {
    const person = await owner();
    const { rows } = await under.database.pool.query<{ row: string }>(
      'select portal_sessions::text as row from portal_sessions where user_id = $1',
      [person.userId],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]?.row).not.toContain(person.secret);
  });

  test('reads the role again with every call', async () => {
    const person = await owner();
    await owner();
    const { email } = person;
    await addMember(under.database.pool, { shopId: 1n, email, role: 'warehouse', by: TEST_AUTHOR });
    const session = await person.client(SessionService).getSession({});
    expect(session.shop?.role).toBe('warehouse');
  });

  test.each([
    [
      'the member was removed, also when the member is added again',
      async (email: string) => {
        await removeMember(under.database.pool, { shopId: 1n, email, by: TEST_AUTHOR });
        await addMember(under.database.pool, { shopId: 1n, email, role: 'owner', by: TEST_AUTHOR });
      },
    ],
    [
      'the account was unlinked',
      (email: string) => unlinkAccount(under.database.pool, { shopId: 1n, email, by: TEST_AUTHOR }),
    ],
    [
      'it was not used for the idle time',
      (email: string) => age(email, "last_used_at = now() - interval '121 minutes'"),
    ],
    ['it reached its maximum age', (email: string) => age(email, 'expires_at = now()')],
  ])('ends when %s', async (_why, change) => {
    await owner();
    const person = await owner();
    expect(await codeOf(person.client(SessionService).getSession({}))).toBeUndefined();
    await change(person.email);
    expect(await codeOf(person.client(SessionService).getSession({}))).toBe(Code.Unauthenticated);
    // A new sign-in of the same account wakes no cookie that somebody may have stolen.
    const again = await portalPerson(under, { shopId: 1n, role: 'owner', email: person.email });
    expect(await codeOf(again.client(SessionService).getSession({}))).toBeUndefined();
    expect(await codeOf(person.client(SessionService).getSession({}))).toBe(Code.Unauthenticated);
  });

  test('notes its use to the minute', async () => {
    const person = await owner();
    await age(person.email, "last_used_at = now() - interval '90 minutes'");
    await person.client(SessionService).getSession({});
    const { rows } = await under.database.pool.query<{ recent: boolean }>(
      "select last_used_at > now() - interval '1 minute' as recent from portal_sessions where user_id = $1",
      [person.userId],
    );
    expect(rows).toEqual([{ recent: true }]);
  });

  test('lists the sessions of the user, and ends one, this one, or all', async () => {
    const first = await owner();
    const second = await portalPerson(under, { shopId: 1n, role: 'owner', email: first.email });
    const other = await owner();
    const { sessions } = await first.client(SessionService).listSessions({});
    expect(sessions).toHaveLength(2);
    const stranger = other.client(SessionService);
    const [{ id: sessionId = '' } = {}] = sessions.filter(({ current }) => !current);
    expect(await codeOf(stranger.endSession({ sessionId }))).toBe(Code.NotFound);
    await first.client(SessionService).endSession({ sessionId });
    expect(await codeOf(second.client(SessionService).getSession({}))).toBe(Code.Unauthenticated);
    expect((await first.client(SessionService).signOutEverywhere({})).ended).toBe(1);
    expect(await codeOf(first.client(SessionService).getSession({}))).toBe(Code.Unauthenticated);
    await stranger.signOut({});
    expect(await codeOf(stranger.getSession({}))).toBe(Code.Unauthenticated);
  });

  test('replaces the id in the cookie when it ends', async () => {
    const person = await owner();
    let cookie: string | null = null;
    await person
      .client(SessionService)
      .signOut({}, { onHeader: (headers) => (cookie = headers.get('set-cookie')) });
    expect(cookie).toMatch(/^rms_portal=signed-out; Max-Age=2592000;.*HttpOnly; SameSite=Lax$/);
  });

  test('moves to another shop of the same account only', async () => {
    const shopId = await under.newShop();
    const foreign = await under.newShop();
    const { email, ...before } = await owner();
    await addMember(under.database.pool, { shopId, email, role: 'analyst', by: TEST_AUTHOR });
    const to = { shopId: String(shopId) };
    expect(await codeOf(before.client(SessionService).switchShop(to))).toBe(Code.NotFound);
    const person = await portalPerson(under, { shopId: 1n, role: 'owner', email });
    // The membership was linked after the sign-in of this session.
    expect(await codeOf(before.client(SessionService).switchShop(to))).toBe(Code.NotFound);
    const client = person.client(SessionService);
    expect(await codeOf(client.switchShop({ shopId: String(foreign) }))).toBe(Code.NotFound);
    const switched = await client.switchShop({ shopId: String(shopId) });
    expect(switched.shop).toMatchObject({ id: String(shopId), role: 'analyst' });
    expect((await client.getSession({})).shop?.id).toBe(String(shopId));
  });

  test('keeps at most 50 sessions of a user', async () => {
    const { email } = await owner();
    for (let count = 0; count < 50; count += 1)
      await portalPerson(under, { shopId: 1n, role: 'owner', email });
    const { rows } = await under.database.pool.query<{ count: bigint }>(
      'select count(*) from portal_sessions s join users u on u.id = s.user_id where u.email = $1',
      [email],
    );
    expect(Number(rows[0]?.count)).toBe(50);
  });

  test('is deleted after it ended', async () => {
    const { email, userId } = await owner();
    await age(email, "expires_at = now() - interval '1 second'");
    await purgePortalSessions(under.database.pool);
    const { rowCount } = await under.database.pool.query(
      'select from portal_sessions where user_id = $1',
      [userId],
    );
    expect(rowCount).toBe(0);
  });
});

describe('the audit log', () => {
  const sessionsIn = async (shopId: bigint) => {
    const entries = await listAudit(under.database.pool, { shopId, limit: 100 });
    return entries
      .filter(({ action }) => action.startsWith('session.'))
      .map(({ action, actorId, detail }) => [action, actorId, detail.why]);
  };

  test.each<[string, string, (person: Person) => Promise<unknown>]>([
    ['signed out', 'signed_out', ({ client }) => client(SessionService).signOut({})],
    [
      'signed out everywhere',
      'signed_out_everywhere',
      ({ client }) => client(SessionService).signOutEverywhere({}),
    ],
    [
      'was removed',
      'member_removed',
      ({ shopId, email }) => removeMember(under.database.pool, { shopId, email, by: TEST_AUTHOR }),
    ],
    [
      'has another account',
      'account_unlinked',
      ({ shopId, email }) => unlinkAccount(under.database.pool, { shopId, email, by: TEST_AUTHOR }),
    ],
    [
      'let it expire',
      'expired',
      async ({ email }) => {
        await age(email, "expires_at = now() - interval '1 second'");
        await purgePortalSessions(under.database.pool);
      },
    ],
  ])('has the start and the end of a session whose user %s', async (_how, why, end) => {
    const shopId = await under.newShop();
    await owner(shopId);
    const person = await owner(shopId);
    await end(person);
    const entries = (await sessionsIn(shopId)).filter(([action]) => action === 'session.ended');
    const byOthers: Record<string, string> = {
      member_removed: TEST_AUTHOR.actor.id,
      account_unlinked: TEST_AUTHOR.actor.id,
      expired: 'portal',
    };
    expect(entries).toEqual([['session.ended', byOthers[why] ?? String(person.userId), why]]);
    expect(await sessionsIn(shopId)).toContainEqual([
      'session.started',
      String(person.userId),
      undefined,
    ]);
  });

  test('has the move of a session in both shops', async () => {
    const [from, to] = [await under.newShop(), await under.newShop()];
    const { email } = await owner(from);
    await addMember(under.database.pool, { shopId: to, email, role: 'owner', by: TEST_AUTHOR });
    const person = await portalPerson(under, { shopId: from, role: 'owner', email });
    await person.client(SessionService).switchShop({ shopId: String(to) });
    const user = String(person.userId);
    await person.client(SessionService).switchShop({ shopId: String(to) });
    expect(await sessionsIn(to)).toEqual([['session.started', user, 'switched_shop']]);
    expect((await sessionsIn(from))[0]).toEqual(['session.ended', user, 'switched_shop']);
  });
});

test('a person is warned of a sign-in with a new device, but not of the first one', async () => {
  const warned: NewDevice[] = [];
  const onNewDevice = async (_tx: unknown, device: NewDevice) => void warned.push(device);
  const sessions = createPortalSessions(under.database.pool, {
    hours: 12,
    idleMinutes: 9,
    onNewDevice,
  });
  const { shopId, email } = { shopId: 1n, email: `${crypto.randomUUID()}@example.com` };
  const { userId } = await addMember(under.database.pool, {
    shopId,
    email,
    role: 'owner',
    by: TEST_AUTHOR,
  });
  const account = { issuer: 'https://id.example.com', subject: email };
  for (const device of [
    'Firefox on Linux',
    'Firefox on Linux',
    'Safari on iPhone',
    '',
    'Safari on iPhone',
  ])
    await sessions.start({ userId, shopId, account, source: '192.0.2.1', device });
  expect(warned.map(({ device }) => device)).toEqual(['Safari on iPhone', '']);
  expect(warned[0]).toEqual({ shopId, userId, device: 'Safari on iPhone', source: '192.0.2.1' });
});

describe('access of a member that an owner ends', () => {
  const team = (person: Person) => person.client(TeamService);

  test('ends the sessions in this shop, and lets none back in; the person may sign in again', async () => {
    const [shopId, other] = [await under.newShop(), await under.newShop()];
    const boss = await owner(shopId);
    const { email } = await portalPerson(under, { shopId: other, role: 'admin' });
    const here = await portalPerson(under, { shopId, role: 'admin', email });
    const elsewhere = await portalPerson(under, { shopId: other, role: 'admin', email });
    await team(boss).endMemberAccess({ userId: String(here.userId) });
    expect(await codeOf(here.client(SessionService).getSession({}))).toBe(Code.Unauthenticated);
    expect(await codeOf(elsewhere.client(SessionService).getSession({}))).toBeUndefined();
    const back = elsewhere.client(SessionService).switchShop({ shopId: String(shopId) });
    expect(await codeOf(back)).toBe(Code.NotFound);
    const again = await portalPerson(under, { shopId, role: 'admin', email });
    expect(await codeOf(again.client(SessionService).getSession({}))).toBeUndefined();
  });

  test('ends a session, too, that starts at the same time', async () => {
    const { pool } = under.database;
    const person = await owner(await under.newShop());
    const { shopId, userId, email } = person;
    const account = { issuer: 'https://id.example.com', subject: email };
    await linkAccount(pool, { email, account });
    const sessions = createPortalSessions(pool, { hours: 12, idleMinutes: 120 });
    const secret = await inTransaction(pool, async (tx) => {
      await endAccess(tx, { shopId, userId }, { by: TEST_AUTHOR, why: 'access_ended' });
      return sessions.start({ userId, shopId, account, source: '', device: '' });
    });
    expect(await sessions.find(secret)).toBeUndefined();
  });

  test.each([
    ['admin', 'owner', Code.PermissionDenied],
    ['admin', 'analyst', undefined],
    ['developer', 'analyst', Code.PermissionDenied],
  ] as const)('by %s of %s: %s', async (by, role, code) => {
    const shopId = await under.newShop();
    const author = await portalPerson(under, { shopId, role: by });
    const { userId } = await portalPerson(under, { shopId, role });
    expect(await codeOf(team(author).endMemberAccess({ userId: String(userId) }))).toBe(code);
    const stranger = await owner(await under.newShop());
    const foreign = team(stranger).endMemberAccess({ userId: String(userId) });
    expect(await codeOf(foreign)).toBe(Code.NotFound);
  });

  test('leaves API keys, which the list of members names', async () => {
    const shopId = await under.newShop();
    const boss = await owner(shopId);
    const maker = await portalPerson(under, { shopId, role: 'admin' });
    await maker.client(ApiKeysService).createApiKey({
      ...{ description: 'ERP', scopes: ['returns'] },
      idempotencyKey: crypto.randomUUID(),
    });
    const { members } = await team(boss).listMembers({});
    expect(members.map(({ keys }) => keys)).toEqual([[], ['ERP']]);
  });
});

describe('calls that are refused before their body is read', () => {
  test.each<[string, Record<string, string>, number]>([
    ['another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['another host of the same site', { 'sec-fetch-site': 'same-site' }, 403],
    ['the address bar', { 'sec-fetch-site': 'none' }, 403],
    ['a foreign origin', { origin: 'https://evil.example' }, 403],
    ['a hidden origin', { origin: 'null' }, 403],
    ['a client that says nothing', {}, 403],
    [
      'our own origin in a browser without Sec-Fetch-Site',
      { origin: 'http://127.0.0.1:8080' },
      200,
    ],
    ['our own page', { 'sec-fetch-site': 'same-origin' }, 200],
  ])('from %s', async (_who, headers, status) => {
    const { secret } = await owner();
    expect((await post({ cookie: `rms_portal=${secret}`, ...headers })).status).toBe(status);
  });

  test.each<[string, (secret: string) => string]>([
    ['without a cookie', () => ''],
    ['with an unknown session', () => `rms_portal=${'x'.repeat(43)}`],
    ['with two cookies of the name', (secret) => `rms_portal=${secret}; rms_portal=${secret}`],
    [
      'with the id of the session that lists show',
      () => 'rms_portal=00000000-0000-0000-0000-000000000000',
    ],
  ])('%s', async (_how, cookie) => {
    const { secret } = await owner();
    const response = await post({ cookie: cookie(secret), 'sec-fetch-site': 'same-origin' });
    expect(response.status).toBe(401);
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(await response.json()).toMatchObject({ code: 'unauthenticated' });
  });

  test('an API key and an assistant token are no session', async () => {
    const headers = { 'x-authorization': under.key, authorization: `Bearer ${under.key}` };
    expect((await post({ ...headers, 'sec-fetch-site': 'same-origin' })).status).toBe(401);
  });

  test('with a Host header from which no URL can be made', async () => {
    const cookie = `rms_portal=${(await owner()).secret}`;
    const headers = { cookie, 'sec-fetch-site': 'same-origin', host: 'x:99999' };
    const [response] = await once(request(getUrl(), { method: 'POST', headers }).end(), 'response');
    expect(response.resume().statusCode).toBe(400);
  });

  test('as GET, as gRPC, without the protocol header, at an unknown method, or with a large body', async () => {
    const { secret } = await owner();
    const headers = { cookie: `rms_portal=${secret}`, 'sec-fetch-site': 'same-origin' };
    const query = `?connect=v1&encoding=json&message=${encodeURIComponent('{}')}`;
    const get = await fetch(`${getUrl()}${query}`, { headers });
    expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST']);
    const grpc = await post({ ...headers, 'Content-Type': 'application/grpc-web+proto' });
    expect(grpc.status).toBe(415);
    const plain = await fetch(getUrl(), {
      method: 'POST',
      body: '{}',
      headers: { ...headers, 'Content-Type': 'application/json' },
    });
    expect(plain.status).toBe(400);
    expect((await post(headers, `${getUrl()}s`)).status).toBe(404);
    const body = JSON.stringify({ shopId: '1', rest: 'x'.repeat(300_000) });
    expect(await (await post(headers, getUrl(), body)).json()).toMatchObject({
      code: 'resource_exhausted',
    });
  });

  test('when the session is at another shop than the page shows', async () => {
    const person = await owner();
    const headers = { 'portal-shop': '2' };
    expect((await person.client(SessionService, headers).getSession({})).shop?.id).toBe('1');
    const call = async (more: Record<string, string>): Promise<Response> => {
      const url = getUrl().replace('SessionService/GetSession', 'TeamService/ListMembers');
      const own = { cookie: `rms_portal=${person.secret}`, 'sec-fetch-site': 'same-origin' };
      return post({ ...own, ...headers, ...more }, url);
    };
    expect((await call({})).status).toBe(400);
    // Browsers report a 400 as an error, so the page asks for a redirect that it does not follow.
    const redirected = await call({ 'portal-no-session': 'redirect' });
    expect([redirected.status, redirected.headers.get('location')]).toEqual([303, '/portal/']);
    expect((await call({ 'portal-no-session': 'redirect', 'portal-shop': '1' })).status).toBe(200);
  });

  test('above the number of calls per minute', async () => {
    const limited = await startTestGateway({ PORTAL_CALLS_PER_MINUTE: 2 });
    try {
      const person = await portalPerson(limited, { shopId: 1n, role: 'owner' });
      const client = person.client(SessionService);
      await client.getSession({});
      await client.getSession({});
      const error = await client.getSession({}).catch(ConnectError.from);
      expect(error).toMatchObject({ code: Code.ResourceExhausted });
      const other = await portalPerson(limited, { shopId: 1n, role: 'owner' });
      expect(await codeOf(other.client(SessionService).getSession({}))).toBeUndefined();
    } finally {
      await limited.stop();
    }
  });

  test('a secret of https is not read from the cookie of http', () => {
    const client = portalClient(SessionService, under.gateway.baseUrl, {
      'sec-fetch-site': 'same-origin',
      cookie: '__Host-rms_portal=x',
    });
    return expect(codeOf(client.getSession({}))).resolves.toBe(Code.Unauthenticated);
  });
});

/** Changes the times of the user's sessions. */
async function age(email: string, set: string): Promise<void> {
  await under.database.pool.query(
    `update portal_sessions set ${set} where user_id = (select id from users where email = $1)`,
    [email],
  );
}
