import { randomUUID } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { acceptInvitation } from './accept-invitation.ts';
import {
  handOverLink,
  invitationOf,
  inviteMember,
  listInvitations,
  MAX_OF_ADDRESS,
  MAX_OF_SHOP,
  MAX_OPEN,
  newInvitationToken,
  purgeInvitations,
  resendInvitation,
  withdrawInvitation,
} from './invitations.ts';
import { inviterText } from './inviter-text.ts';
import { addMember, listMembers, removeMember } from './members.ts';
import type { Role } from './permissions.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

const pool = () => under.database.pool;
const newEmail = () => `${randomUUID()}@example.com`;
const accountOf = (subject: string) => ({ issuer: 'https://id.example.com', subject });

/** A new shop with an owner. */
async function newShop() {
  const shopId = await under.newShop();
  const member = async (role: Role) => {
    const email = newEmail();
    const { userId } = await addMember(pool(), { shopId, email, role, by: TEST_AUTHOR });
    const actor = { kind: Actor_Kind.USER, id: String(userId), name: '' };
    return { email, by: { actor, userId } };
  };
  const owner = await member('owner');
  const invite = (o: Partial<Parameters<typeof inviteMember>[1]> = {}) =>
    inviteMember(pool(), {
      shopId,
      by: owner.by,
      mails: undefined,
      email: newEmail(),
      name: undefined,
      role: 'analyst',
      idempotencyKey: randomUUID(),
      ...o,
    });
  return { shopId, member, owner, invite };
}

const accept = (token: string | undefined, email: string, subject = email) =>
  acceptInvitation(pool(), {
    token: token ?? '',
    email,
    account: accountOf(subject),
    from: { source: '192.0.2.1', requestId: randomUUID() },
  });

const stateOf = async (token: string | undefined) =>
  (await invitationOf(pool(), token ?? ''))?.state;

const rolesIn = async (shopId: bigint) =>
  new Map((await listMembers(pool(), shopId)).map(({ email, role }) => [email, role]));

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: { code?: Code }) => error.code,
  );

describe('an invitation', () => {
  test('is no membership before it is accepted, and then has its role', async () => {
    const { shopId, invite } = await newShop();
    const email = newEmail();
    const { token } = await invite({ email, name: 'Bo', role: 'warehouse' });
    expect((await rolesIn(shopId)).has(email)).toBe(false);
    expect(await accept(token, email)).toMatchObject({ kind: 'member', shopId });
    expect((await rolesIn(shopId)).get(email)).toBe('warehouse');
    const [, member] = await listMembers(pool(), shopId);
    expect(member).toMatchObject({ name: 'Bo', isLinked: true });
    expect(await listInvitations(pool(), shopId)).toEqual([]);
  });

  test('is stored without its token', async () => {
    const { shopId, invite } = await newShop();
    const { token = '' } = await invite();
    expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/);
    const { rows } = await pool().query<{ row: string }>(
      'select invitations::text as row from invitations where shop_id = $1',
      [shopId],
    );
    expect(rows[0]?.row).not.toContain(token);
    expect(rows[0]?.row).not.toContain(Buffer.from(token).toString('hex'));
  });

  test('is for one address', async () => {
    const { shopId, invite } = await newShop();
    const { token } = await invite();
    expect(await accept(token, newEmail())).toEqual({ kind: 'unknown' });
    expect(await accept(newInvitationToken(), newEmail())).toEqual({ kind: 'unknown' });
    expect((await rolesIn(shopId)).size).toBe(1);
  });

  test('ends after seven days', async () => {
    const { shopId, invite } = await newShop();
    const email = newEmail();
    const { token } = await invite({ email });
    const [listed] = await listInvitations(pool(), shopId);
    const lives = (listed?.expiresAt.getTime() ?? 0) - (listed?.createdAt.getTime() ?? 0);
    expect(lives).toBe(7 * 86_400_000);
    await age(shopId, '7 days 1 second');
    expect(await accept(token, email)).toEqual({ kind: 'expired' });
    expect(await listInvitations(pool(), shopId)).toMatchObject([{ state: 'expired' }]);
    // The place is free for a new one.
    await invite({ email });
    expect(await stateOf(token)).toBe('replaced');
  });

  test('that is withdrawn ends at once, and only once', async () => {
    const { shopId, owner, invite } = await newShop();
    const email = newEmail();
    const { token, invitationId } = await invite({ email });
    const withdraw = () => withdrawInvitation(pool(), { shopId, invitationId, by: owner.by });
    await withdraw();
    await withdraw();
    expect(await accept(token, email)).toEqual({ kind: 'withdrawn' });
    const { rowCount } = await pool().query(
      `select from audit_log where shop_id = $1 and action = 'invitation.withdrawn'`,
      [shopId],
    );
    expect(rowCount).toBe(1);
  });

  test('of another shop does not exist', async () => {
    const [{ invite }, stranger] = [await newShop(), await newShop()];
    const { invitationId } = await invite();
    const of = { shopId: stranger.shopId, invitationId, by: stranger.owner.by };
    expect(await codeOf(withdrawInvitation(pool(), of))).toBe(Code.NotFound);
    const again = { ...of, mails: undefined, idempotencyKey: randomUUID() };
    expect(await codeOf(resendInvitation(pool(), again))).toBe(Code.NotFound);
  });

  test('that is sent again has a new link, and the old one ends', async () => {
    const { shopId, owner, member, invite } = await newShop();
    const email = newEmail();
    const { token: old, invitationId } = await invite({ email, name: 'Bo' });
    const admin = await member('admin');
    const again = {
      ...{ shopId, invitationId, by: admin.by, mails: undefined },
      idempotencyKey: randomUUID(),
    };
    const made = await resendInvitation(pool(), again);
    expect(await accept(old, email)).toEqual({ kind: 'replaced' });
    expect(await listInvitations(pool(), shopId)).toMatchObject([
      { id: made.invitationId, email, name: 'Bo', invitedBy: admin.email },
    ]);
    // The answer was lost: the same invitation, and a link for who did not get the first one.
    const repeat = await resendInvitation(pool(), again);
    expect(repeat.invitationId).toBe(made.invitationId);
    expect(await stateOf(made.token)).toBeUndefined();
    const other = { ...again, by: owner.by, idempotencyKey: randomUUID() };
    expect(await codeOf(resendInvitation(pool(), other))).toBe(Code.FailedPrecondition);
    expect(await accept(repeat.token, email)).toMatchObject({ kind: 'member' });
  });

  test('a repeat of the call makes no second one, and other content is rejected', async () => {
    const { shopId, invite } = await newShop();
    const call = { email: newEmail(), idempotencyKey: randomUUID() };
    const [first, second] = [await invite(call), await invite(call)];
    expect(second.invitationId).toBe(first.invitationId);
    expect(await codeOf(invite({ ...call, role: 'admin' }))).toBe(Code.AlreadyExists);
    expect(await codeOf(invite({ email: call.email }))).toBe(Code.AlreadyExists);
    expect(await listInvitations(pool(), shopId)).toHaveLength(1);
  });

  test('is for nobody who is a member', async () => {
    const { member, invite } = await newShop();
    const { email } = await member('warehouse');
    await expect(invite({ email })).rejects.toMatchObject({
      code: Code.AlreadyExists,
      message: expect.stringContaining('is a member already, with the role warehouse'),
    });
  });

  test('of an owner is made by owners only', async () => {
    const { shopId, owner, member, invite } = await newShop();
    const [admin, analyst] = [await member('admin'), await member('analyst')];
    expect(await codeOf(invite({ by: admin.by, role: 'owner' }))).toBe(Code.PermissionDenied);
    expect(await codeOf(invite({ by: analyst.by }))).toBe(Code.PermissionDenied);
    const { invitationId } = await invite({ by: owner.by, role: 'owner' });
    const of = { shopId, invitationId, by: admin.by };
    expect(await codeOf(withdrawInvitation(pool(), of))).toBe(Code.PermissionDenied);
    const again = { ...of, mails: undefined, idempotencyKey: randomUUID() };
    expect(await codeOf(resendInvitation(pool(), again))).toBe(Code.PermissionDenied);
  });
});

describe('the limits', () => {
  test('of open invitations of a shop', async () => {
    const { shopId, invite } = await newShop();
    await fill(shopId, MAX_OPEN);
    expect(await codeOf(invite())).toBe(Code.ResourceExhausted);
    await pool().query(
      `update invitations set ended = 'withdrawn', ended_at = now()
        where (shop_id, id) = (select shop_id, id from invitations where shop_id = $1 limit 1)`,
      [shopId],
    );
    await invite();
  });

  test('of invitations that a shop makes within a day, also when they ended', async () => {
    const { shopId, invite } = await newShop();
    await fill(shopId, MAX_OF_SHOP, 'withdrawn');
    expect(await codeOf(invite())).toBe(Code.ResourceExhausted);
    await age(shopId, '25 hours');
    await invite();
  });

  test('of invitations to one address within a day, from all shops at once', async () => {
    const email = newEmail();
    const shops = await Promise.all(Array.from({ length: MAX_OF_ADDRESS + 2 }, newShop));
    const codes = await Promise.all(shops.map(({ invite }) => codeOf(invite({ email }))));
    expect(codes.filter((code) => code === undefined)).toHaveLength(MAX_OF_ADDRESS);
    expect(codes.filter((code) => code === Code.ResourceExhausted)).toHaveLength(2);
  });

  test('of a team', async () => {
    const { shopId, invite } = await newShop();
    const email = newEmail();
    const { token } = await invite({ email });
    await pool().query(
      `with people as (insert into users (email) select gen_random_uuid() || '@example.com'
                         from generate_series(1, 999) returning id)
       insert into memberships (shop_id, user_id, role) select $1, id, 'analyst' from people`,
      [shopId],
    );
    expect(await accept(token, email)).toEqual({ kind: 'full' });
    expect(await stateOf(token)).toBe('open');
    expect(await codeOf(invite())).toBe(Code.ResourceExhausted);
  });
});

describe('at the same time', () => {
  test('two accept with one account: one membership, and both are in', async () => {
    const { shopId, invite } = await newShop();
    const email = newEmail();
    const { token } = await invite({ email });
    const both = await Promise.all([accept(token, email), accept(token, email)]);
    expect(both.map(({ kind }) => kind)).toEqual(['member', 'member']);
    expect((await rolesIn(shopId)).size).toBe(2);
    const { rowCount } = await pool().query(
      `select from audit_log where shop_id = $1 and action = 'member.added' and detail ? 'invited_by'`,
      [shopId],
    );
    expect(rowCount).toBe(1);
    // And later.
    expect(await accept(token, email)).toMatchObject({ kind: 'member' });
  });

  test('two accounts with one address accept: one of them is in', async () => {
    const { shopId, invite } = await newShop();
    const email = newEmail();
    const { token } = await invite({ email });
    const both = await Promise.all([accept(token, email, 'a'), accept(token, email, 'b')]);
    expect(both.map(({ kind }) => kind).toSorted()).toEqual(['accepted', 'member']);
    expect((await rolesIn(shopId)).size).toBe(2);
  });

  test('one accepts and one withdraws: either a member or nothing', async () => {
    const { shopId, owner, invite } = await newShop();
    const email = newEmail();
    const { token, invitationId } = await invite({ email });
    const [accepted, withdrawn] = await Promise.all([
      accept(token, email),
      codeOf(withdrawInvitation(pool(), { shopId, invitationId, by: owner.by })),
    ]);
    const isMember = (await rolesIn(shopId)).has(email);
    expect([accepted.kind, withdrawn]).toEqual(
      isMember ? ['member', Code.FailedPrecondition] : ['withdrawn', undefined],
    );
  });

  test('two invite one address: one invitation', async () => {
    const { shopId, member, invite } = await newShop();
    const email = newEmail();
    const admin = await member('admin');
    const both = [invite({ email }), invite({ email, by: admin.by })];
    expect((await Promise.all(both.map(codeOf))).toSorted()).toEqual([
      Code.AlreadyExists,
      undefined,
    ]);
    expect(await listInvitations(pool(), shopId)).toHaveLength(1);
  });
});

describe('what changed in between', () => {
  test('the inviting person was removed: nobody can accept, until somebody else sends a new link', async () => {
    const { shopId, owner, member, invite } = await newShop();
    const admin = await member('admin');
    const email = newEmail();
    const { token, invitationId } = await invite({ email, by: admin.by });
    await removeMember(pool(), { shopId, email: admin.email, by: TEST_AUTHOR });
    expect(await accept(token, email)).toEqual({ kind: 'unbacked' });
    expect((await rolesIn(shopId)).has(email)).toBe(false);
    expect(await listInvitations(pool(), shopId)).toMatchObject([{ state: 'unbacked' }]);
    const again = { mails: undefined, idempotencyKey: randomUUID() };
    const made = await resendInvitation(pool(), { shopId, invitationId, by: owner.by, ...again });
    expect(await accept(made.token, email)).toMatchObject({ kind: 'member' });
  });

  test.each([
    ['admin', 'analyst', 'analyst'],
    ['owner', 'admin', 'owner'],
  ] as const)('the inviting %s became %s: no %s is added', async (before, after, role) => {
    const { shopId, member, invite } = await newShop();
    const inviter = await member(before);
    const email = newEmail();
    const { token } = await invite({ email, role, by: inviter.by });
    const change = { shopId, email: inviter.email, by: TEST_AUTHOR };
    await addMember(pool(), { ...change, role: after });
    expect(await accept(token, email)).toEqual({ kind: 'unbacked' });
    // The right counts when the person accepts.
    await addMember(pool(), { ...change, role: before });
    expect(await accept(token, email)).toMatchObject({ kind: 'member' });
  });

  test('an owner who became admin still backs an invitation of an analyst', async () => {
    const { shopId, member, invite } = await newShop();
    const inviter = await member('owner');
    const email = newEmail();
    const { token } = await invite({ email, by: inviter.by });
    await addMember(pool(), { shopId, email: inviter.email, role: 'admin', by: TEST_AUTHOR });
    expect(await accept(token, email)).toMatchObject({ kind: 'member' });
  });

  test('the person was added by the operator: the role of then stays', async () => {
    const { shopId, invite } = await newShop();
    const email = newEmail();
    const { token } = await invite({ email, role: 'admin' });
    await addMember(pool(), { shopId, email, role: 'warehouse', by: TEST_AUTHOR });
    expect(await accept(token, email)).toMatchObject({ kind: 'member' });
    expect((await rolesIn(shopId)).get(email)).toBe('warehouse');
    expect(await stateOf(token)).toBe('accepted');
  });

  test('the person became a member with another account of this address', async () => {
    const { invite, shopId } = await newShop();
    const email = newEmail();
    const { token } = await invite({ email });
    const member = { shopId, email, role: 'warehouse', by: TEST_AUTHOR } as const;
    const { userId } = await addMember(pool(), member);
    await pool().query(
      `update memberships set sign_in_issuer = $3, sign_in_subject = 'other' where shop_id = $1 and user_id = $2`,
      [shopId, userId, accountOf('').issuer],
    );
    expect(await accept(token, email)).toEqual({ kind: 'otherAccount' });
  });

  test('the person was removed after accepting: the link lets nobody in again', async () => {
    const { invite, shopId } = await newShop();
    const email = newEmail();
    const { token } = await invite({ email });
    await accept(token, email);
    await removeMember(pool(), { shopId, email, by: TEST_AUTHOR });
    expect(await accept(token, email)).toEqual({ kind: 'accepted' });
    expect((await rolesIn(shopId)).has(email)).toBe(false);
  });
});

test('a link of a mail is stored only while somebody could accept it', async () => {
  const { shopId, owner, invite } = await newShop();
  const email = newEmail();
  const mails = { invite: async () => {} };
  const { invitationId, token } = await invite({ email, mails });
  expect(token).toBeUndefined();
  const of = { shopId, invitationId };
  const sent = newInvitationToken();
  expect(await handOverLink(pool(), of, sent)).toBe(true);
  expect(await stateOf(sent)).toBe('open');
  await withdrawInvitation(pool(), { ...of, by: owner.by });
  expect(await handOverLink(pool(), of, newInvitationToken())).toBe(false);
  expect(await stateOf(sent)).toBe('withdrawn');
});

test('invitations are deleted 30 days after their end', async () => {
  const { shopId, invite } = await newShop();
  const { token } = await invite();
  await age(shopId, '36 days');
  await purgeInvitations(pool());
  expect(await stateOf(token)).toBe('expired');
  await age(shopId, '2 days');
  await purgeInvitations(pool());
  expect(await stateOf(token)).toBeUndefined();
});

test.each([
  ['Ada Lovelace', 'Ada Lovelace'],
  ['www.bad.example https://bad.example/x', 'www. bad. example https: / / bad. example/ x'],
  ['Ada\nBcc: x@bad.example', 'Ada Bcc: x@ bad. example'],
  ['x'.repeat(191), 'x'.repeat(60)],
  [null, 'ada lovelace'],
  ['\u200b', 'ada lovelace'],
])('the inviting person %j is shown as %j', (name, shown) => {
  expect(inviterText({ name, email: 'ada.lovelace@shop.example' })).toBe(shown);
});

/** Moves all invitations of a shop into the past. */
async function age(shopId: bigint, by: string): Promise<void> {
  await pool().query(
    `update invitations set created_at = created_at - $2::interval, expires_at = expires_at - $2::interval
      where shop_id = $1`,
    [shopId, by],
  );
}

async function fill(shopId: bigint, count: number, ended: string | null = null): Promise<void> {
  await pool().query(
    `insert into invitations (shop_id, email, role, invited_by, creation_key, expires_at, ended, ended_at)
     select $1, gen_random_uuid() || '@example.com', 'analyst', user_id, gen_random_uuid()::text,
            now() + interval '7 days', $3::text, case when $3::text is not null then now() end
       from memberships, generate_series(1, $2) where shop_id = $1 and role = 'owner'`,
    [shopId, count, ended],
  );
}
