import type pg from 'pg';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { type Author, recordAudits } from './audit.ts';
import {
  endInvitation,
  type FoundInvitation,
  type InvitationState,
  invitationOf,
} from './invitations.ts';
import { lockRoles, MAX_MEMBERS } from './members.ts';
import { linkAccount, type SignInAccount } from './sign-in-accounts.ts';
import { ensureUser, type User } from './users.ts';

/** A person who signed in and accepts. */
interface Accepting {
  /** The token of the link. */
  readonly token: string;
  /** Confirmed by the identity provider, in the form that `parseEmail` returns. */
  readonly email: string;
  readonly account: SignInAccount;
  /** IP address of the client and id of the request, for the audit log. */
  readonly from: Pick<Author, 'source' | 'requestId'>;
  /** Called in the transaction that makes the membership. */
  readonly added?: (tx: Queryable, invitation: FoundInvitation, userId: bigint) => Promise<void>;
}

/**
 * `accepted`: it was accepted, and this account is no member. `full`: the shop has no room for a member. `otherAccount`: the
 * person is a member already, with another account. `unknown`: no invitation of this address has the token.
 */
export type Acceptance =
  | { readonly kind: 'member'; readonly shopId: bigint; readonly userId: bigint }
  | { readonly kind: Exclude<InvitationState, 'open'> | 'full' | 'otherAccount' | 'unknown' };

/**
 * Accepts an invitation: makes the membership, linked to the account. Safe to repeat and to run twice at once: the same
 * account gets the same result. A person who became a member in the meantime keeps that role.
 */
export async function acceptInvitation(pool: pg.Pool, o: Accepting): Promise<Acceptance> {
  const found = await invitationOf(pool, o.token);
  if (found?.email !== o.email) return { kind: 'unknown' };
  // As every sign-in does: a person with a new address keeps being the same user.
  await linkAccount(pool, o);
  return inTransaction(pool, async (tx) => {
    const roles = await lockRoles(tx, found.shopId);
    // Read again: under the lock nobody else changes invitations or members of the shop.
    const invitation = await invitationOf(tx, o.token);
    if (!invitation) return { kind: 'unknown' };
    const { shopId, state } = invitation;
    if (state !== 'open' && state !== 'accepted') return { kind: state };
    const user = await ensureUser(tx, o.email, {
      ...(state === 'open' && invitation.name !== null && { name: invitation.name }),
      renamedBy: shopId,
    });
    const isMember = roles.has(user.id);
    if (isMember && !(await isLinkedTo(tx, { shopId, userId: user.id }, o.account))) {
      return { kind: state === 'open' ? 'otherAccount' : 'accepted' };
    }
    if (state === 'accepted') {
      return isMember ? { kind: 'member', shopId, userId: user.id } : { kind: 'accepted' };
    }
    if (!isMember && roles.size >= MAX_MEMBERS) return { kind: 'full' };
    await endInvitation(tx, invitation, 'accepted');
    if (!isMember) await insertMembership(tx, { invitation, user, account: o.account });
    await recordAcceptance(tx, { invitation, user, isMember, from: o.from });
    if (!isMember) await o.added?.(tx, invitation, user.id);
    return { kind: 'member', shopId, userId: user.id };
  });
}

async function isLinkedTo(
  tx: Queryable,
  { shopId, userId }: { readonly shopId: bigint; readonly userId: bigint },
  { issuer, subject }: SignInAccount,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `select from memberships
      where shop_id = $1 and user_id = $2 and sign_in_issuer = $3 and sign_in_subject = $4`,
    [shopId, userId, issuer, subject],
  );
  return rowCount === 1;
}

async function insertMembership(
  tx: Queryable,
  o: {
    readonly invitation: FoundInvitation;
    readonly user: User;
    readonly account: SignInAccount;
  },
): Promise<void> {
  await tx.query(
    `insert into memberships (shop_id, user_id, role, sign_in_issuer, sign_in_subject)
     values ($1, $2, $3, $4, $5)`,
    [o.invitation.shopId, o.user.id, o.invitation.role, o.account.issuer, o.account.subject],
  );
}

/** The person acts; the entry of the invitation says who invited. */
async function recordAcceptance(
  tx: Queryable,
  o: {
    readonly invitation: FoundInvitation;
    readonly user: User;
    readonly isMember: boolean;
    readonly from: Accepting['from'];
  },
): Promise<void> {
  const { shopId, invitationId, role, inviter } = o.invitation;
  const userId = String(o.user.id);
  const actor = { kind: Actor_Kind.USER, id: userId, name: o.user.name ?? '' };
  const by: Author = { actor, ...o.from };
  const invited_by = String(inviter.id);
  const detail = { to: role, invited_by };
  const subject = String(invitationId);
  await recordAudits(tx, [
    { shopId, by, action: 'invitation.accepted', subject, detail: { invited_by } },
    ...(o.isMember ? [] : [{ shopId, by, action: 'member.added', subject: userId, detail }]),
  ]);
}
