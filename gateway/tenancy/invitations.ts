import { createHash, randomBytes } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { onlyRow } from '../../services/platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { DomainError, stateForbids } from '../../services/platform/values/errors.ts';
import { idempotencyConflict } from '../../services/platform/values/idempotency.ts';
import { type Author, recordAudit } from './audit.ts';
import {
  isMemberAlready,
  lockRoles,
  MAX_MEMBERS,
  requirePermission,
  tooManyMembers,
} from './members.ts';
import { permits, ROLES, type Role } from './permissions.ts';
import { normalizeEmail, requireHonestEmail, requireHonestName } from './users.ts';

/** How long a link works. Days. */
const LINK_DAYS = 7;
/** Maximum number of open invitations of a shop. */
export const MAX_OPEN = 100;
/** Maximum number of links that a shop makes within a day, so that nobody sends mails to the world with it. */
export const MAX_OF_SHOP = 200;
/** Maximum number of links for one address within a day, from all shops together. */
export const MAX_OF_ADDRESS = 5;
/** Maximum number of invitations in a list. */
const MAX_LISTED = 500;

/**
 * `unbacked`: the inviting person could not make the invitation now, because of a removal or another role. Nobody can
 * accept it; a new link of somebody else makes it open again.
 */
export type InvitationState =
  | 'open'
  | 'expired'
  | 'unbacked'
  | 'accepted'
  | 'withdrawn'
  | 'replaced';

const INVITERS = ROLES.filter((role) => permits(role, ['team.manage']))
  .map((role) => `'${role}'`)
  .join(', ');

/** The state of the invitation `i`. The rights of the inviting person are those of the moment. */
const STATE = `
  case when i.ended is not null then i.ended
       when i.expires_at <= now() then 'expired'
       when exists (select from memberships b
                     where b.shop_id = i.shop_id and b.user_id = i.invited_by and b.role in (${INVITERS})
                       and (i.role <> 'owner' or b.role = 'owner')) then 'open'
       else 'unbacked' end`;

/** The mails with links. */
export interface InvitationMails {
  /** Stores the mail of an invitation in the transaction that makes it. {@link handOverLink} makes its link. */
  invite(tx: Queryable, of: InvitationId): Promise<void>;
}

export interface InvitationId {
  readonly shopId: bigint;
  readonly invitationId: bigint;
}

/** A call that makes a link. Its response may get lost, and a repeat has the same key. */
interface LinkCall {
  readonly shopId: bigint;
  /** 1 to 200 characters. */
  readonly idempotencyKey: string;
  /** The inviting person. */
  readonly by: Author & { readonly userId: bigint };
  /** Undefined when mails are off: then the link is returned. */
  readonly mails: InvitationMails | undefined;
}

/** An invitation that was made. */
export interface MadeInvitation extends InvitationId {
  /** The token of its link, which is stored nowhere; undefined when a mail brings it. */
  readonly token: string | undefined;
}

/**
 * Invites a person. A repeat with the same idempotency key returns the same invitation. Without mails it has a new token,
 * because the caller did not get the first one.
 *
 * @param o.name the name that the person gets; not when the person is a member of another shop.
 * @throws DomainError PERMISSION_DENIED as `addMember`; ALREADY_EXISTS when the person is a member or has an open
 *   invitation; RESOURCE_EXHAUSTED at a limit of members or invitations.
 */
export function inviteMember(
  pool: pg.Pool,
  o: LinkCall & { readonly email: string; readonly name: string | undefined; readonly role: Role },
): Promise<MadeInvitation> {
  const { shopId, role } = o;
  const email = normalizeEmail(o.email);
  requireHonestEmail(email);
  if (o.name !== undefined) requireHonestName(o.name);
  const wanted = { email, name: o.name ?? null, role };
  return inTransaction(pool, async (tx) => {
    const roles = await lockRoles(tx, shopId);
    requirePermission(roles, o, [role]);
    const repeated = await repeatOf(tx, o, wanted);
    if (repeated) return repeated;
    await requireNewMember(tx, shopId, { email, roles });
    const open = await openInvitation(tx, shopId, email);
    if (open?.state === 'open') throw isInvitedAlready(open.role);
    // Nobody can accept it any more.
    if (open) await endInvitation(tx, { shopId, invitationId: open.id }, 'replaced');
    await requireRoom(tx, shopId, email);
    const made = await insertInvitation(tx, { ...o, ...wanted });
    await audit(tx, { ...made, by: o.by }, 'invitation.sent', { to: role });
    return made;
  });
}

/**
 * Makes a new link for the person of an invitation. The earlier link ends, and the author becomes the inviting person.
 * Repeats are as in {@link inviteMember}.
 *
 * @throws DomainError as {@link inviteMember}; NOT_FOUND when the shop has no such invitation; FAILED_PRECONDITION when it
 *   was accepted, withdrawn or replaced.
 */
export function resendInvitation(
  pool: pg.Pool,
  o: LinkCall & { readonly invitationId: bigint },
): Promise<MadeInvitation> {
  const { shopId, invitationId } = o;
  return inTransaction(pool, async (tx) => {
    const roles = await lockRoles(tx, shopId);
    const former = await invitationWithId(tx, o);
    const { email, name, role } = former;
    requirePermission(roles, o, [role]);
    const repeated = await repeatOf(tx, o, { email, name, role });
    if (repeated) return repeated;
    requireNotEnded(former.ended);
    await requireNewMember(tx, shopId, { email, roles });
    await endInvitation(tx, { shopId, invitationId }, 'replaced');
    await requireRoom(tx, shopId, email);
    const made = await insertInvitation(tx, { ...o, email, name, role });
    const detail = { to: role, replaced_id: String(invitationId) };
    await audit(tx, { ...made, by: o.by }, 'invitation.resent', detail);
    return made;
  });
}

/**
 * Ends an invitation. Idempotent.
 *
 * @throws DomainError PERMISSION_DENIED as `addMember`; NOT_FOUND when the shop has no such invitation;
 *   FAILED_PRECONDITION when it was accepted, or a newer one replaced it.
 */
export function withdrawInvitation(
  pool: pg.Pool,
  o: InvitationId & { readonly by: Author & { readonly userId: bigint } },
): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const roles = await lockRoles(tx, o.shopId);
    const { role, ended } = await invitationWithId(tx, o);
    requirePermission(roles, o, [role]);
    if (ended === 'withdrawn') return;
    requireNotEnded(ended);
    await endInvitation(tx, o, 'withdrawn');
    await audit(tx, o, 'invitation.withdrawn', { from: role });
  });
}

/** An invitation that was not accepted, withdrawn or replaced. */
export interface ListedInvitation {
  readonly id: bigint;
  readonly email: string;
  readonly name: string | null;
  readonly role: Role;
  readonly state: 'open' | 'expired' | 'unbacked';
  /** Name of the inviting person, or the address. */
  readonly invitedBy: string;
  /** Empty when no mail was stored. */
  readonly mail: 'waiting' | 'sent' | 'failed' | 'unknown' | '';
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

/** The shop's invitations, newest first, at most 500. */
export async function listInvitations(db: Queryable, shopId: bigint): Promise<ListedInvitation[]> {
  const { rows } = await db.query<ListedInvitation>(
    `select i.id, i.email, i.name, i.role, ${STATE} as state, coalesce(u.name, u.email) as "invitedBy",
            case when m.id is null then '' when m.ended is null then 'waiting'
                 when m.ended = 'dropped' then 'failed' else m.ended end as mail,
            i.created_at as "createdAt", i.expires_at as "expiresAt"
       from invitations i join users u on u.id = i.invited_by
       left join mails m on m.shop_id = i.shop_id and m.invitation_id = i.id
      where i.shop_id = $1 and i.ended is null
      order by i.created_at desc, i.id desc limit ${MAX_LISTED}`,
    [shopId],
  );
  return rows;
}

/** An invitation as its link finds it. */
export interface FoundInvitation extends InvitationId {
  readonly email: string;
  readonly name: string | null;
  readonly role: Role;
  readonly state: InvitationState;
  readonly shopName: string;
  /** The inviting person. */
  readonly inviter: { readonly id: bigint; readonly name: string | null; readonly email: string };
}

/** Undefined when no invitation has this token. */
export async function invitationOf(
  db: Queryable,
  token: string,
): Promise<FoundInvitation | undefined> {
  return (await selectInvitations(db, 'i.token_hash = $1', [hashOf(token)]))[0];
}

/** The invitation for its mail; undefined when nobody could accept it. */
export async function invitationToMail(
  db: Queryable,
  { shopId, invitationId }: InvitationId,
): Promise<FoundInvitation | undefined> {
  const [found] = await selectInvitations(db, 'i.shop_id = $1 and i.id = $2', [
    shopId,
    invitationId,
  ]);
  return found?.state === 'open' ? found : undefined;
}

async function selectInvitations(
  db: Queryable,
  condition: string,
  values: readonly unknown[],
): Promise<FoundInvitation[]> {
  const { rows } = await db.query<
    Omit<FoundInvitation, 'inviter'> & {
      inviterId: bigint;
      inviterName: string | null;
      inviterEmail: string;
    }
  >(
    `select i.shop_id as "shopId", i.id as "invitationId", i.email, i.name, i.role, ${STATE} as state,
            s.name as "shopName", u.id as "inviterId", u.name as "inviterName", u.email as "inviterEmail"
       from invitations i join shops s on s.id = i.shop_id join users u on u.id = i.invited_by
      where ${condition}`,
    [...values],
  );
  return rows.map(({ inviterId: id, inviterName: name, inviterEmail: email, ...rest }) => ({
    ...rest,
    inviter: { id, name, email },
  }));
}

/**
 * Stores the link of a mail, in the transaction that notes that a mail server begins to take the mail. The link works for
 * seven days from now. Returns false when nobody could accept the invitation, so that the mail must not be sent.
 */
export async function handOverLink(
  tx: Queryable,
  { shopId, invitationId }: InvitationId,
  token: string,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update invitations i set token_hash = $3, expires_at = now() + ${LINK_DAYS} * interval '1 day'
      where i.shop_id = $1 and i.id = $2 and ${STATE} = 'open'`,
    [shopId, invitationId, hashOf(token)],
  );
  return rowCount === 1;
}

/** The secret of a link: 32 random bytes in base64url. */
export function newInvitationToken(): string {
  return randomBytes(32).toString('base64url');
}

/** Where a link leads. The token is in the fragment, which no browser sends: so no log and no `Referer` has it. */
export function invitationLink(publicUrl: string, token: string): string {
  return `${publicUrl}${INVITATION_PATH}#${token}`;
}

/** The page that opens an invitation. */
export const INVITATION_PATH = '/portal/invitation';

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** How long an invitation is kept after its end. Days. */
const KEPT_DAYS = 30;
const BATCH = 1_000;

/** Deletes old invitations with their mails. Returns true when there may be more. Safe to run twice. */
export async function purgeInvitations(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from invitations where (shop_id, id) in (
       select shop_id, id from invitations
        where created_at < now() - $1 * interval '1 day'
          and coalesce(ended_at, expires_at) < now() - $1 * interval '1 day'
        limit $2 for update skip locked)`,
    [KEPT_DAYS, BATCH],
  );
  return rowCount === BATCH;
}

interface Invitee {
  readonly email: string;
  readonly name: string | null;
  readonly role: Role;
}

/** The invitation of an earlier try of the call. @throws DomainError ALREADY_EXISTS when that had other content. */
async function repeatOf(
  tx: Queryable,
  { shopId, idempotencyKey, mails }: LinkCall,
  wanted: Invitee,
): Promise<MadeInvitation | undefined> {
  const { rows } = await tx.query<Invitee & { id: bigint; ended: string | null }>(
    'select id, email, name, role, ended from invitations where shop_id = $1 and creation_key = $2',
    [shopId, idempotencyKey],
  );
  const [row] = rows;
  if (!row) return undefined;
  const { email, name, role } = wanted;
  if (row.email !== email || row.name !== name || row.role !== role) throw idempotencyConflict();
  const made = { shopId, invitationId: row.id };
  if (mails || row.ended !== null) return { ...made, token: undefined };
  const token = newInvitationToken();
  await tx.query('update invitations set token_hash = $3 where shop_id = $1 and id = $2', [
    shopId,
    row.id,
    hashOf(token),
  ]);
  return { ...made, token };
}

async function insertInvitation(tx: Queryable, o: LinkCall & Invitee): Promise<MadeInvitation> {
  const { shopId, mails } = o;
  const token = mails ? undefined : newInvitationToken();
  const inserted = await tx.query<{ id: bigint }>(
    `insert into invitations (shop_id, email, name, role, invited_by, creation_key, token_hash, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, now() + ${LINK_DAYS} * interval '1 day') returning id`,
    [
      shopId,
      o.email,
      o.name,
      o.role,
      o.by.userId,
      o.idempotencyKey,
      token === undefined ? null : hashOf(token),
    ],
  );
  const made = { shopId, invitationId: onlyRow(inserted).id };
  await mails?.invite(tx, made);
  return { ...made, token };
}

/** Ends an invitation that has not ended. Its token stays, so that its page can say what became of it. */
export async function endInvitation(
  tx: Queryable,
  { shopId, invitationId }: InvitationId,
  as: 'accepted' | 'withdrawn' | 'replaced',
): Promise<void> {
  await tx.query(
    'update invitations set ended = $3, ended_at = now() where shop_id = $1 and id = $2 and ended is null',
    [shopId, invitationId, as],
  );
}

function audit(
  tx: Queryable,
  { shopId, invitationId, by }: InvitationId & { readonly by: Author },
  action: string,
  detail: Readonly<Record<string, string>>,
): Promise<void> {
  return recordAudit(tx, { shopId, by, action, subject: String(invitationId), detail });
}

async function invitationWithId(
  tx: Queryable,
  { shopId, invitationId }: InvitationId,
): Promise<Invitee & { readonly ended: string | null }> {
  const { rows } = await tx.query<Invitee & { ended: string | null }>(
    'select email, name, role, ended from invitations where shop_id = $1 and id = $2',
    [shopId, invitationId],
  );
  if (rows[0]) return rows[0];
  const text = 'the shop has no such invitation';
  throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, text);
}

async function openInvitation(
  tx: Queryable,
  shopId: bigint,
  email: string,
): Promise<{ id: bigint; role: Role; state: InvitationState } | undefined> {
  const { rows } = await tx.query<{ id: bigint; role: Role; state: InvitationState }>(
    `select i.id, i.role, ${STATE} as state from invitations i
      where i.shop_id = $1 and i.email = $2 and i.ended is null`,
    [shopId, email],
  );
  return rows[0];
}

async function requireNewMember(
  tx: Queryable,
  shopId: bigint,
  { email, roles }: { readonly email: string; readonly roles: ReadonlyMap<bigint, Role> },
): Promise<void> {
  const { rows } = await tx.query<{ role: Role }>(
    `select m.role from memberships m join users u on u.id = m.user_id
      where m.shop_id = $1 and u.email = $2`,
    [shopId, email],
  );
  if (rows[0]) throw isMemberAlready(rows[0].role);
  if (roles.size >= MAX_MEMBERS) throw tooManyMembers();
}

/** Checks the limits of invitations. The lock of the address makes its limit exact over all shops. */
async function requireRoom(tx: Queryable, shopId: bigint, email: string): Promise<void> {
  await tx.query("select pg_advisory_xact_lock(hashtextextended('invitations:' || $1, 0))", [
    email,
  ]);
  const counted = await tx.query<{ open: bigint; shop: bigint; address: bigint }>(
    `select (select count(*) from invitations
              where shop_id = $1 and ended is null and expires_at > now()) as open,
            (select count(*) from invitations
              where shop_id = $1 and created_at > now() - interval '1 day') as shop,
            (select count(*) from invitations
              where email = $2 and created_at > now() - interval '1 day') as address`,
    [shopId, email],
  );
  const { open, shop, address } = onlyRow(counted);
  if (open >= MAX_OPEN) {
    throw atLimit(`a shop has at most ${MAX_OPEN} open invitations: withdraw one first`);
  }
  if (shop >= MAX_OF_SHOP) {
    throw atLimit(`a shop sends at most ${MAX_OF_SHOP} invitations within a day: try again later`);
  }
  if (address >= MAX_OF_ADDRESS) {
    const text = `an address gets at most ${MAX_OF_ADDRESS} invitations within a day: try again tomorrow`;
    throw atLimit(text);
  }
}

function atLimit(text: string): DomainError {
  return new DomainError(Code.ResourceExhausted, ErrorReason.QUOTA_EXCEEDED, text);
}

function isInvitedAlready(role: Role): DomainError {
  const text = `this person is invited already, with the role ${role}: send a new link, or withdraw the invitation first`;
  return new DomainError(Code.AlreadyExists, ErrorReason.UNSPECIFIED, text, { field: 'email' });
}

const ENDED: Readonly<Record<string, string>> = {
  accepted: 'the person has accepted this invitation',
  withdrawn: 'this invitation was withdrawn: invite the person again',
  replaced: 'a newer invitation has replaced this one',
};

function requireNotEnded(ended: string | null): void {
  if (ended !== null) throw stateForbids(ENDED[ended] ?? 'this invitation has ended');
}
