import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import PostalMime from 'postal-mime';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { type MailsUnderTest, runMails } from '../../test/kit/mail/running-mails.ts';
import { until } from '../../test/kit/until.ts';
import { acceptInvitation } from '../tenancy/accept-invitation.ts';
import {
  invitationOf,
  inviteMember,
  listInvitations,
  resendInvitation,
  withdrawInvitation,
} from '../tenancy/invitations.ts';
import { addMember, removeMember } from '../tenancy/members.ts';
import { ensureUser } from '../tenancy/users.ts';
import { ownerAdded } from './facts.ts';

let mail: MailsUnderTest;
beforeAll(async () => {
  mail = await runMails();
});
afterAll(() => mail.stop());
afterEach(() => {
  mail.server.rejects = undefined;
});

/** A shop whose owner Ada invites somebody. */
async function newInvitation(role: 'analyst' | 'owner' = 'analyst') {
  const { shopId, addressOf } = await mail.newShop();
  const { id: userId } = await ensureUser(mail.pool, addressOf('owner'), { name: 'Ada Lovelace' });
  const by = { actor: { kind: Actor_Kind.USER, id: String(userId), name: 'Ada' }, userId };
  const email = `${randomUUID()}@example.com`;
  const call = () => ({ shopId, by, mails: mail.mails(), idempotencyKey: randomUUID() });
  const invite = () => inviteMember(mail.pool, { ...call(), email, name: undefined, role });
  return { shopId, addressOf, by, email, call, invite };
}

/** The mails that arrived at an address. */
async function arrivedAt(email: string) {
  const all = await Promise.all(mail.server.received.map(({ raw }) => PostalMime.parse(raw)));
  return all.filter(({ to }) => to?.some(({ address }) => address === email));
}

/** Waits until the newest invitation of a shop has a mail in this state. */
async function untilMail(shopId: bigint, state: string): Promise<void> {
  await until(async (see) => see((await listInvitations(mail.pool, shopId))[0]?.mail) === state);
}

const tokenIn = (text = '') => /\/portal\/invitation#([A-Za-z0-9_-]{43})\n/.exec(text)?.[1] ?? '';

test('has a link that works, and names the inviting person and not the shop', async () => {
  const { shopId, email, invite } = await newInvitation();
  const { invitationId, token } = await invite();
  expect(token).toBeUndefined();
  await untilMail(shopId, 'sent');
  const [arrived, ...others] = await arrivedAt(email);
  expect(others).toEqual([]);
  expect(arrived?.subject).toBe('Ada Lovelace invites you to a team');
  expect(arrived?.text).toContain('https://api.example.com/portal/invitation#');
  const { rows } = await mail.pool.query<{ name: string }>('select name from shops where id = $1', [
    shopId,
  ]);
  expect(JSON.stringify(arrived)).not.toContain(rows[0]?.name);
  const found = await invitationOf(mail.pool, tokenIn(arrived?.text));
  expect(found).toMatchObject({ invitationId, state: 'open' });
});

test('a repeat of the call sends no second mail', async () => {
  const { shopId, email, call } = await newInvitation();
  const same = { ...call(), email, name: undefined, role: 'analyst' } as const;
  await inviteMember(mail.pool, same);
  await untilMail(shopId, 'sent');
  await inviteMember(mail.pool, same);
  await mail.ended(shopId, 1);
  expect(await arrivedAt(email)).toHaveLength(1);
});

test('the mail of a new link brings the one that works', async () => {
  const { shopId, email, call, invite } = await newInvitation();
  const { invitationId } = await invite();
  await untilMail(shopId, 'sent');
  await resendInvitation(mail.pool, { ...call(), invitationId });
  await mail.ended(shopId, 2);
  const tokens = (await arrivedAt(email)).map(({ text }) => tokenIn(text));
  const states = tokens.map(async (token) => (await invitationOf(mail.pool, token))?.state);
  expect((await Promise.all(states)).toSorted()).toEqual(['open', 'replaced']);
});

describe('what became of the mail', () => {
  test('a server that takes it later: one mail, whose link works', async () => {
    const { shopId, email, invite } = await newInvitation();
    await mail.restart({ pausesMs: [3_600_000] });
    mail.server.rejects = { at: 'content', code: 451 };
    await invite();
    await until(async () => {
      const { rowCount } = await mail.pool.query(
        'update mails set due_at = now() where shop_id = $1 and attempts = 1',
        [shopId],
      );
      return rowCount === 1;
    });
    expect(await listInvitations(mail.pool, shopId)).toMatchObject([{ mail: 'waiting' }]);
    mail.server.rejects = undefined;
    await mail.restart();
    await untilMail(shopId, 'sent');
    const [arrived, ...others] = await arrivedAt(email);
    expect(others).toEqual([]);
    expect((await invitationOf(mail.pool, tokenIn(arrived?.text)))?.state).toBe('open');
  });

  test('a server that rejects it: failed, and a new link can be sent', async () => {
    const { shopId, email, call, invite } = await newInvitation();
    mail.server.rejects = { at: 'recipient', code: 550 };
    const { invitationId } = await invite();
    await untilMail(shopId, 'failed');
    mail.server.rejects = undefined;
    await resendInvitation(mail.pool, { ...call(), invitationId });
    await untilMail(shopId, 'sent');
    expect(await arrivedAt(email)).toHaveLength(1);
  });

  test('a process that died while a server took it: unknown, and not sent again', async () => {
    const { shopId, email, call } = await newInvitation();
    // No sender of this process is notified.
    const mails = {
      invite: async (...[tx, of]: Parameters<ReturnType<typeof mail.mails>['invite']>) => {
        await mail.mails().invite(tx, of);
        await tx.query('update mails set handed_over_at = now() where shop_id = $1', [shopId]);
      },
    };
    await inviteMember(mail.pool, { ...call(), mails, email, name: undefined, role: 'analyst' });
    await untilMail(shopId, 'unknown');
    expect(await arrivedAt(email)).toEqual([]);
  });

  test.each(['withdrawn', 'unbacked'] as const)(
    'an invitation that is %s before it: none',
    async (end) => {
      const { shopId, addressOf, by, email, invite } = await newInvitation();
      await mail.restart({ pausesMs: [3_600_000] });
      mail.server.rejects = { at: 'recipient', code: 450 };
      const { invitationId } = await invite();
      await until(async () => {
        const { rowCount } = await mail.pool.query(
          'select from mails where shop_id = $1 and attempts = 1',
          [shopId],
        );
        return rowCount === 1;
      });
      if (end === 'withdrawn') await withdrawInvitation(mail.pool, { shopId, invitationId, by });
      else {
        const other = {
          shopId,
          email: addressOf('admin'),
          role: 'owner',
          by: TEST_AUTHOR,
        } as const;
        await addMember(mail.pool, other);
        await removeMember(mail.pool, { shopId, email: addressOf('owner'), by: TEST_AUTHOR });
      }
      mail.server.rejects = undefined;
      await mail.pool.query('update mails set due_at = now() where shop_id = $1', [shopId]);
      await mail.restart();
      expect((await mail.ended(shopId, 1)).rows).toMatchObject([{ ended: 'dropped' }]);
      expect(await arrivedAt(email)).toEqual([]);
    },
  );
});

test('two replicas send each mail once', async () => {
  const second = await mail.startReplica();
  const all = await Promise.all(Array.from({ length: 8 }, () => newInvitation()));
  await Promise.all(all.map(({ invite }) => invite()));
  for (const { shopId, email } of all) {
    await untilMail(shopId, 'sent');
    expect(await arrivedAt(email)).toHaveLength(1);
  }
  await second.stop();
});

test('the owners learn that an invited person became an owner', async () => {
  const { shopId, addressOf, email, call } = await newInvitation();
  const invited = { ...call(), mails: undefined, email, name: undefined, role: 'owner' } as const;
  const { token = '' } = await inviteMember(mail.pool, invited);
  await acceptInvitation(mail.pool, {
    token,
    email,
    account: { issuer: 'https://id.example.com', subject: email },
    from: {},
    added: (tx, { inviter }, userId) =>
      mail.mails().add(tx, [ownerAdded({ shopId, userId, byUserId: inviter.id })]),
  });
  const { to, arrived } = await mail.ended(shopId, 2);
  expect(to).toEqual([email, addressOf('owner')].toSorted());
  expect(arrived[0]?.text).toContain(`${email} is now an owner`);
  expect(arrived[0]?.text).toContain(`By: ${addressOf('owner')}`);
});
