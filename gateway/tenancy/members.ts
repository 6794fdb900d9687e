import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { DomainError, stateForbids } from '../../services/platform/values/errors.ts';
import { type Author, recordAudit } from './audit.ts';
import { endAccess } from './end-access.ts';
import { endLostGrants } from './partner-grants.ts';
import { permits, type Role } from './permissions.ts';
import { requireShop } from './shops.ts';
import { ensureUser, findUser } from './users.ts';

/** Maximum number of members of a shop. Each change reads them all, and one event may cause a mail to each. */
export const MAX_MEMBERS = 1_000;

export interface Member {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly role: Role;
}

export interface MemberChange {
  readonly shopId: bigint;
  readonly email: string;
  /**
   * The author of the change. With a `userId` it is a member, who needs the permission for it. Without one it is an
   * operator.
   */
  readonly by: Author & { readonly userId?: bigint };
}

/**
 * Adds a member, or changes the role of a member. Idempotent.
 *
 * @param change.name replaces the user's name, except when a member makes the change and the user is a member of
 *   another shop.
 * @param change.only `new`: a member with another role is ALREADY_EXISTS; `existing`: NOT_FOUND when there is no such
 *   member.
 * @param change.expected the role that the author saw; absent to change any role.
 * @param change.ownerAdded called in the transaction when the person becomes an owner.
 * @throws DomainError PERMISSION_DENIED when the author lacks the permission (only an owner may add or change owners),
 *   FAILED_PRECONDITION when the change would leave the shop without an owner, or when the member has neither the
 *   expected nor the new role, RESOURCE_EXHAUSTED for a new member when the shop has 1,000.
 */
export function addMember(
  pool: pg.Pool,
  change: MemberChange & {
    readonly role: Role;
    readonly name?: string;
    readonly only?: 'new' | 'existing';
    readonly expected?: Role | undefined;
    readonly ownerAdded?: (tx: Queryable, userId: bigint) => Promise<void>;
  },
): Promise<Member> {
  return inTransaction(pool, async (tx) => {
    const isByMember = change.by.userId !== undefined;
    const user = await ensureUser(tx, change.email, {
      name: change.name,
      renamedBy: isByMember ? change.shopId : undefined,
    });
    const roles = await lockRoles(tx, change.shopId);
    const before = roles.get(user.id);
    requirePermission(roles, change, [before, change.role]);
    if (change.only === 'new' && before && before !== change.role) throw isMemberAlready(before);
    if (change.only === 'existing' && !before) throw noSuchMember();
    if (!before && roles.size >= MAX_MEMBERS) throw tooManyMembers();
    if (before === change.role) return { shopId: change.shopId, userId: user.id, role: before };
    if (before && change.expected && before !== change.expected) throw hasOtherRole(before);
    if (before === 'owner') requireAnotherOwner(roles);
    await tx.query(
      `insert into memberships (shop_id, user_id, role) values ($1, $2, $3)
       on conflict (shop_id, user_id) do update set role = excluded.role`,
      [change.shopId, user.id, change.role],
    );
    await recordAudit(tx, {
      shopId: change.shopId,
      by: change.by,
      action: before ? 'member.role_changed' : 'member.added',
      subject: String(user.id),
      detail: before ? { from: before, to: change.role } : { to: change.role },
    });
    if (change.role === 'owner') await change.ownerAdded?.(tx, user.id);
    if (before) {
      const whose = { shopId: change.shopId, userId: user.id };
      await endLostGrants(tx, whose, { by: change.by, before, now: change.role });
    }
    return { shopId: change.shopId, userId: user.id, role: change.role };
  });
}

/**
 * Ends a membership. The user's tokens for the shop stop working with their next call.
 *
 * @throws DomainError NOT_FOUND when there is no such member; the errors of {@link addMember}.
 */
export function removeMember(pool: pg.Pool, change: MemberChange): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const { shopId, by } = change;
    const { roles, userId, role } = await lockMember(tx, change);
    if (role === 'owner') requireAnotherOwner(roles);
    await tx.query('delete from memberships where shop_id = $1 and user_id = $2', [shopId, userId]);
    await endAccess(tx, { shopId, userId }, { by, why: 'member_removed' });
    await recordAudit(tx, {
      ...{ shopId, by, action: 'member.removed' },
      subject: String(userId),
      detail: { from: role },
    });
  });
}

/**
 * Ends all access of a member, who stays a member: for a lost device, or a session that somebody else has.
 *
 * @throws DomainError as {@link removeMember}, but it may be the last owner.
 */
export function endMemberAccess(pool: pg.Pool, change: MemberChange): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const { shopId, by } = change;
    const { userId } = await lockMember(tx, change);
    await endAccess(tx, { shopId, userId }, { by, why: 'access_ended' });
    const subject = String(userId);
    await recordAudit(tx, { shopId, by, action: 'member.access_ended', subject });
  });
}

/** Locks the members of the shop, and finds the one of the change. */
async function lockMember(tx: Queryable, change: MemberChange) {
  const roles = await lockRoles(tx, change.shopId);
  const user = await findUser(tx, change.email);
  const role = user && roles.get(user.id);
  requirePermission(roles, change, [role]);
  if (!user || !role) throw noSuchMember();
  return { roles, userId: user.id, role };
}

/** A member, with the address and name of the user. */
export interface ListedMember extends Member {
  readonly email: string;
  readonly name: string | null;
  /** The time when the membership was created. */
  readonly createdAt: Date;
  /** Whether an account of the identity provider is linked to the member, because the member has signed in. */
  readonly isLinked: boolean;
  /** When an assistant of the member made its last call; null when no stored grant was used. */
  readonly assistantUsedAt: Date | null;
  /** The valid API keys that the person made, by description or id; the newest {@link MAX_KEYS}. */
  readonly keys: readonly string[];
}

const MAX_KEYS = 20;

/** The shop's members, oldest membership first. */
export async function listMembers(db: Queryable, shopId: bigint): Promise<ListedMember[]> {
  const { rows } = await db.query<ListedMember>(
    `select m.shop_id as "shopId", m.user_id as "userId", m.role, u.email, u.name, m.created_at as "createdAt",
            m.sign_in_subject is not null as "isLinked",
            (select max(g.last_used_at) from oauth_grants g
              where g.user_id = m.user_id and g.shop_id = m.shop_id) as "assistantUsedAt",
            array(select coalesce(nullif(k.description, ''), k.key_id) from api_keys k
                   where k.shop_id = m.shop_id and k.created_by_kind = 'user' and k.created_by_id = m.user_id::text
                     and k.revoked_at is null and k.waiting_secret_hash is null
                     and (k.expires_at is null or k.expires_at > now())
                   order by k.created_at desc, k.key_id limit ${MAX_KEYS}) as keys
       from memberships m join users u on u.id = m.user_id
      where m.shop_id = $1 order by m.created_at, m.user_id`,
    [shopId],
  );
  return rows;
}

function noSuchMember(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, 'the shop has no such member');
}

/** RESOURCE_EXHAUSTED: the shop has {@link MAX_MEMBERS}. */
export function tooManyMembers(): DomainError {
  const text = `a shop has at most ${MAX_MEMBERS} members: remove one first`;
  return new DomainError(Code.ResourceExhausted, ErrorReason.QUOTA_EXCEEDED, text);
}

/** ALREADY_EXISTS: the person is a member. */
export function isMemberAlready(role: Role): DomainError {
  const text = `this person is a member already, with the role ${role}: change the role instead`;
  return new DomainError(Code.AlreadyExists, ErrorReason.UNSPECIFIED, text, { field: 'email' });
}

function hasOtherRole(role: Role): DomainError {
  return stateForbids(`the role of this person is now ${role}: somebody else changed it`);
}

/**
 * Returns the role in a shop of the member behind an account of an identity provider. This is the member that is linked
 * to the account, or else the member with the e-mail address. The address does not find a member that is linked to
 * another account of this provider, because the address may have a new owner.
 *
 * @param who.email confirmed, in the form that `parseEmail` returns.
 */
export async function roleOfAccount(
  db: Queryable,
  shopId: bigint,
  who: {
    readonly issuer: string;
    readonly subject: string | undefined;
    readonly email: string | undefined;
  },
): Promise<Role | undefined> {
  const { rows } = await db.query<{ role: Role }>(
    `select m.role from memberships m join users u on u.id = m.user_id
      where m.shop_id = $1
        and case when $4::text is null then m.sign_in_issuer = $2 and m.sign_in_subject = $3
                 else u.email = $4 and (m.sign_in_issuer is distinct from $2 or m.sign_in_subject = $3) end`,
    [shopId, who.issuer, who.subject ?? null, who.email ?? null],
  );
  return rows[0]?.role;
}

/**
 * Locks the shop's members and invitations, so that two concurrent changes cannot remove the last two owners. Returns the
 * roles by the ids of the users.
 */
export async function lockRoles(tx: Queryable, shopId: bigint): Promise<Map<bigint, Role>> {
  await requireShop(tx, shopId);
  await tx.query('select id from shops where id = $1 for no key update', [shopId]);
  const { rows } = await tx.query<{ user_id: bigint; role: Role }>(
    'select user_id, role from memberships where shop_id = $1',
    [shopId],
  );
  return new Map(rows.map((row) => [row.user_id, row.role]));
}

/**
 * Checks that the author may change members with these roles.
 *
 * @param affectedRoles the roles before and after the change; undefined for none.
 * @throws DomainError PERMISSION_DENIED without `team.manage`, or for the role owner when the author is no owner.
 */
export function requirePermission(
  roles: ReadonlyMap<bigint, Role>,
  change: Pick<MemberChange, 'by'>,
  affectedRoles: readonly (Role | undefined)[],
): void {
  if (change.by.userId === undefined) return;
  const ownRole = roles.get(change.by.userId);
  const allowed = ownRole !== undefined && permits(ownRole, ['team.manage']);
  if (allowed && (ownRole === 'owner' || !affectedRoles.includes('owner'))) return;
  throw new DomainError(
    Code.PermissionDenied,
    ErrorReason.UNSPECIFIED,
    allowed ? 'only an owner may change owners' : 'this needs the permission team.manage',
  );
}

function requireAnotherOwner(roles: ReadonlyMap<bigint, Role>): void {
  const owners = [...roles.values()].filter((role) => role === 'owner');
  if (owners.length > 1) return;
  throw stateForbids('a shop must keep at least one owner: make another member an owner first');
}
