import type { Queryable } from '../../../services/platform/postgres/postgres.ts';
import type { Role } from '../../tenancy/permissions.ts';

/**
 * The user who signed in, and the shop that the user chose. oidc-provider treats this pair as one account, so every
 * code and token is for one shop.
 */
export interface Account {
  readonly userId: bigint;
  readonly shopId: bigint;
}

export function accountId({ userId, shopId }: Account): string {
  return `${userId}.${shopId}`;
}

/** Parses the result of {@link accountId}; undefined for any other text. */
export function parseAccountId(text: string): Account | undefined {
  const [, userId, shopId] = /^([1-9]\d{0,15})\.([1-9]\d{0,15})$/.exec(text) ?? [];
  if (userId === undefined || shopId === undefined) return undefined;
  return { userId: BigInt(userId), shopId: BigInt(shopId) };
}

export async function isMember(db: Queryable, account: Account): Promise<boolean> {
  const { rowCount } = await db.query(
    'select 1 from memberships where shop_id = $1 and user_id = $2',
    [account.shopId, account.userId],
  );
  return rowCount === 1;
}

/** Does the same as {@link isMember}, and locks the membership until the transaction ends. */
export async function isMemberUntilCommit(tx: Queryable, account: Account): Promise<boolean> {
  const { rowCount } = await tx.query(
    'select 1 from memberships where shop_id = $1 and user_id = $2 for key share',
    [account.shopId, account.userId],
  );
  return rowCount === 1;
}

/** A shop that a user may choose. */
export interface ShopOfUser extends Account {
  readonly name: string;
  /** The user's role in this shop. */
  readonly role: Role;
}

/** Maximum number of shops in the shop form. */
const MAX_SHOPS = 200;

/** The shops of the user with this e-mail address (in the form that `parseEmail` returns), ordered by name. */
export async function shopsOfEmail(db: Queryable, email: string): Promise<ShopOfUser[]> {
  const { rows } = await db.query<ShopOfUser>(
    `select u.id as "userId", s.id as "shopId", s.name, m.role
       from users u
       join memberships m on m.user_id = u.id
       join shops s on s.id = m.shop_id
      where u.email = $1
      order by s.name, s.id
      limit ${MAX_SHOPS}`,
    [email],
  );
  return rows;
}

/** Returns the current shop and role of an account; undefined when the membership has ended. */
export async function shopOfMember(
  db: Queryable,
  { userId, shopId }: Account,
): Promise<ShopOfUser | undefined> {
  const { rows } = await db.query<ShopOfUser>(
    `select m.user_id as "userId", s.id as "shopId", s.name, m.role
       from memberships m
       join shops s on s.id = m.shop_id
      where m.shop_id = $1 and m.user_id = $2`,
    [shopId, userId],
  );
  return rows[0];
}
