import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { type Author, recordAudit } from './audit.ts';
import { endAccess } from './end-access.ts';
import { findUser } from './users.ts';

/** An account of the identity provider. Only both fields together identify a user (OpenID Connect Core, 5.7). */
export interface SignInAccount {
  readonly issuer: string;
  readonly subject: string;
}

/** The shops that have a member with an e-mail address. */
export interface ShopsOfAccount {
  /** Shops where the address is linked to this account, including newly linked ones. */
  readonly linked: readonly bigint[];
  /** Shops where the address is linked to another account. */
  readonly linkedToOther: readonly bigint[];
}

/**
 * Links an account with a confirmed e-mail address to the memberships of this address that have no linked account. From
 * then on only this account may use them, even if somebody else gets the address later.
 *
 * If a linked account signs in with a new address that no other user has, the account's user gets the new address.
 *
 * @param o.email in the form that `parseEmail` returns.
 * @param o.from IP address of the client and id of the request, for the audit log.
 */
export function linkAccount(
  pool: pg.Pool,
  o: {
    readonly email: string;
    readonly account: SignInAccount;
    readonly from?: Pick<Author, 'source' | 'requestId'>;
  },
): Promise<ShopsOfAccount> {
  return inTransaction(pool, async (tx) => {
    const author = (userId: bigint): Author => ({
      actor: { kind: Actor_Kind.USER, id: String(userId), name: '' },
      ...(o.from?.source !== undefined && { source: o.from.source }),
      ...(o.from?.requestId !== undefined && { requestId: o.from.requestId }),
    });
    for (const [action, changed] of [
      ['member.address_changed', await updateAddress(tx, o)],
      ['member.account_linked', await linkMemberships(tx, o)],
    ] as const) {
      for (const { shopId, userId } of changed) {
        const by = author(userId);
        await recordAudit(tx, { shopId, by, action, subject: String(userId) });
      }
    }
    const { rows } = await tx.query<{ shopId: bigint; isLinked: boolean }>(
      `select m.shop_id as "shopId", m.sign_in_issuer = $2 and m.sign_in_subject = $3 as "isLinked"
         from memberships m join users u on u.id = m.user_id
        where u.email = $1`,
      [o.email, o.account.issuer, o.account.subject],
    );
    const shopsWith = (isLinked: boolean) =>
      rows.filter((row) => row.isLinked === isLinked).map(({ shopId }) => shopId);
    return { linked: shopsWith(true), linkedToOther: shopsWith(false) };
  });
}

/**
 * Removes the link between a member and an account, and ends the member's grants. The next account that signs in with
 * the member's confirmed address is linked to the member.
 *
 * @throws DomainError NOT_FOUND when the shop has no such member.
 */
export function unlinkAccount(
  pool: pg.Pool,
  o: { readonly shopId: bigint; readonly email: string; readonly by: Author },
): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const { shopId, by } = o;
    const user = await findUser(tx, o.email);
    const { rowCount } = await tx.query(
      `update memberships set sign_in_issuer = null, sign_in_subject = null
        where shop_id = $1 and user_id = $2`,
      [shopId, user?.id ?? null],
    );
    if (!user || rowCount !== 1) {
      throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, 'the shop has no such member');
    }
    await endAccess(tx, { shopId, userId: user.id }, { by, why: 'account_unlinked' });
    await recordAudit(tx, {
      shopId,
      by,
      action: 'member.account_unlinked',
      subject: String(user.id),
    });
  });
}

interface Membership {
  readonly shopId: bigint;
  readonly userId: bigint;
}

/** Links the memberships of the address that have no linked account. */
async function linkMemberships(
  tx: Queryable,
  { email, account }: { readonly email: string; readonly account: SignInAccount },
): Promise<Membership[]> {
  const { rows } = await tx.query<Membership>(
    `update memberships m set sign_in_issuer = $2, sign_in_subject = $3
       from users u
      where u.id = m.user_id and u.email = $1 and m.sign_in_subject is null
     returning m.shop_id as "shopId", m.user_id as "userId"`,
    [email, account.issuer, account.subject],
  );
  return rows;
}

/**
 * Changes the address of the user whose memberships are all linked to the account. Changes nothing when another user
 * has the address.
 */
async function updateAddress(
  tx: Queryable,
  { email, account }: { readonly email: string; readonly account: SignInAccount },
): Promise<Membership[]> {
  const { rows } = await tx.query<Membership>(
    `with linked_users as (
       select m.user_id from memberships m
        where m.sign_in_issuer = $2 and m.sign_in_subject = $3 group by m.user_id
     ), moved as (
       update users u set email = $1
        where u.id in (select user_id from linked_users) and (select count(*) from linked_users) = 1
          and not exists (select from users other where other.email = $1)
          and not exists (select from memberships m where m.user_id = u.id
                and (m.sign_in_issuer, m.sign_in_subject) is distinct from ($2, $3))
       returning u.id
     )
     select m.shop_id as "shopId", m.user_id as "userId"
       from memberships m join moved on moved.id = m.user_id`,
    [email, account.issuer, account.subject],
  );
  return rows;
}
