import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { SCOPES, type Scope } from '../../services/contract/scopes.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { roleCovers } from '../actions/scope-rights.ts';
import { type Author, recordAudit, recordAudits } from './audit.ts';
import { isPartnerScope, mayConnectApps } from './partner-scopes.ts';
import type { Role } from './permissions.ts';

/** The app, the shop, and the member who lets the app act there. */
export interface PartnerGrantFor {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly clientId: string;
  /** `iss` of the tokens. */
  readonly issuer: string;
}

export interface PartnerGrant extends PartnerGrantFor {
  /** What the app may do now. */
  readonly scopes: readonly Scope[];
  /** What an owner still has to allow. */
  readonly waitingScopes: readonly Scope[];
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

/** The result of {@link addPartnerGrant}. */
export interface AddedGrant {
  /** False when the grant existed: a repeated call. */
  readonly isNew: boolean;
  /** Whether the app was not installed in the shop before. */
  readonly isInstalled: boolean;
  readonly appName: string;
  readonly scopes: readonly Scope[];
  readonly waitingScopes: readonly Scope[];
}

/**
 * Stores that a member lets an app act in the shop, and installs the app there. Scopes that the member may not allow
 * wait for an owner, unless the app has them in this shop already. Idempotent.
 *
 * @param id at least 20 characters.
 * @param o.requested the scopes that the app asked for; those that it may not ask for are dropped.
 * @param o.ttlS lifetime in seconds.
 * @throws DomainError PERMISSION_DENIED when the user may not connect apps to the shop, or the app was removed.
 */
export async function addPartnerGrant(
  tx: Queryable,
  id: string,
  o: PartnerGrantFor & {
    readonly requested: readonly string[];
    readonly ttlS: number;
    readonly by: Author;
  },
): Promise<AddedGrant> {
  const role = await lockRole(tx, o);
  const app = await lockApp(tx, o.clientId);
  if (!role || !mayConnectApps(role) || !app) throw mayNotConnect();
  const wanted = app.scopes.filter((scope) => o.requested.includes(scope));
  const { scopes, waitingScopes } = await divideScopes(tx, { ...o, role }, wanted);
  const whose = [o.shopId, o.issuer, o.clientId];
  const installed = await tx.query(
    'insert into installations (shop_id, issuer, client_id) values ($1, $2, $3) on conflict do nothing',
    whose,
  );
  const stored = await tx.query(
    `insert into partner_grants (shop_id, issuer, client_id, id, user_id, scopes, waiting_scopes, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, now() + $8 * interval '1 second') on conflict do nothing`,
    [...whose, id, o.userId, scopes, waitingScopes, o.ttlS],
  );
  const isNew = stored.rowCount === 1;
  if (!isNew) await requireSame(tx, id, o);
  const isInstalled = installed.rowCount === 1;
  if (isNew) {
    await recordAudit(tx, {
      shopId: o.shopId,
      by: o.by,
      action: isInstalled ? 'app.installed' : 'app.allowed',
      subject: o.clientId,
      detail: {
        issuer: o.issuer,
        grant: id,
        scopes,
        ...(waitingScopes.length > 0 && { waiting_scopes: waitingScopes }),
      },
    });
  }
  return { isNew, isInstalled, appName: app.name, scopes, waitingScopes };
}

async function requireSame(tx: Queryable, id: string, o: PartnerGrantFor): Promise<void> {
  const { rowCount } = await tx.query(
    `select 1 from partner_grants
      where shop_id = $1 and id = $2 and user_id = $3 and client_id = $4 and issuer = $5 and revoked_at is null`,
    [o.shopId, id, o.userId, o.clientId, o.issuer],
  );
  if (rowCount !== 1) throw new Error('another grant has this id');
}

function mayNotConnect(): DomainError {
  const text = 'the user may not connect this app to the shop';
  return new DomainError(Code.PermissionDenied, ErrorReason.UNSPECIFIED, text);
}

/** The role of the member, which cannot change until the transaction ends. */
async function lockRole(
  tx: Queryable,
  { shopId, userId }: PartnerGrantFor,
): Promise<Role | undefined> {
  const { rows } = await tx.query<{ role: Role }>(
    'select role from memberships where shop_id = $1 and user_id = $2 for share',
    [shopId, userId],
  );
  return rows[0]?.role;
}

/** The name of the app, and the scopes that it may ask for. The app cannot be removed until the transaction ends. */
async function lockApp(
  tx: Queryable,
  clientId: string,
): Promise<{ readonly name: string; readonly scopes: readonly Scope[] } | undefined> {
  const { rows } = await tx.query<{ name: string; scopes: string[] }>(
    'select name, scopes from partner_apps where client_id = $1 and removed_at is null for share',
    [clientId],
  );
  const [app] = rows;
  return app && { name: app.name, scopes: app.scopes.filter(isPartnerScope) };
}

/**
 * Divides the scopes that an app asks for into those that it gets by the consent of a member with this role, and those
 * that wait for an owner. The app gets what it has in this shop already.
 */
export async function divideScopes(
  db: Queryable,
  o: Omit<PartnerGrantFor, 'userId'> & { readonly role: Role },
  wanted: readonly Scope[],
): Promise<{ readonly scopes: readonly Scope[]; readonly waitingScopes: readonly Scope[] }> {
  const { rows } = await db.query<{ scope: string }>(
    `select distinct unnest(scopes) as scope from partner_grants
      where shop_id = $1 and issuer = $2 and client_id = $3 and revoked_at is null and expires_at > now()`,
    [o.shopId, o.issuer, o.clientId],
  );
  const has = rows.map(({ scope }) => scope);
  const scopes = wanted.filter((scope) => roleCovers(o.role, scope) || has.includes(scope));
  return { scopes, waitingScopes: wanted.filter((scope) => !scopes.includes(scope)) };
}

/** The grant with this id; undefined when there is none, or when it was ended or has expired. */
export async function findPartnerGrant(
  db: Queryable,
  id: string,
): Promise<PartnerGrant | undefined> {
  const { rows } = await db.query<PartnerGrant>(
    `select g.shop_id as "shopId", g.user_id as "userId", g.client_id as "clientId", g.issuer, g.scopes,
            g.waiting_scopes as "waitingScopes", g.created_at as "createdAt", g.expires_at as "expiresAt"
       from partner_grants g join partner_apps a on a.client_id = g.client_id and a.removed_at is null
      where g.id = $1 and g.revoked_at is null and g.expires_at > now()`,
    [id],
  );
  return rows[0];
}

/** Selects one grant, or all grants that a member made in a shop. */
export type PartnerGrantSelector =
  | { readonly id: string }
  | { readonly shopId: bigint; readonly userId: bigint };

/**
 * Ends grants, with their codes, refresh tokens and access tokens. The app stays installed. Writes an audit entry for
 * each grant that was active. Idempotent.
 *
 * @returns the number of grants that were active.
 */
export async function endPartnerGrants(
  tx: Queryable,
  selector: PartnerGrantSelector,
  { by, why }: { readonly by: Author; readonly why: string },
): Promise<number> {
  const [condition, values] =
    'id' in selector
      ? ['id = $1', [selector.id]]
      : ['shop_id = $1 and user_id = $2', [selector.shopId, selector.userId]];
  // Locks in a fixed order, so that two transactions that end several grants cannot deadlock.
  await tx.query(
    `select from partner_grants where ${condition} order by shop_id, id for update`,
    values,
  );
  const { rows } = await tx.query<{
    id: string;
    shopId: bigint;
    userId: bigint;
    clientId: string;
    issuer: string;
  }>(
    `update partner_grants set revoked_at = now() where ${condition} and revoked_at is null
     returning id, shop_id as "shopId", user_id as "userId", client_id as "clientId", issuer`,
    values,
  );
  await tx.query(
    `delete from partner_tickets where grant_id in (select id from partner_grants where ${condition})`,
    values,
  );
  const entries = rows.map(({ id, shopId, userId, clientId, issuer }) => ({
    shopId,
    by,
    action: 'app.access_ended',
    subject: clientId,
    detail: { issuer, grant: id, user_id: String(userId), why },
  }));
  if (entries.length > 0) await recordAudits(tx, entries);
  return rows.length;
}

/**
 * Ends what a member let apps do and, in a new role, may not let them do: grants with a scope that only the role of
 * before covers, and all of them when the new role may not connect apps.
 */
export async function endLostGrants(
  tx: Queryable,
  whose: { readonly shopId: bigint; readonly userId: bigint },
  o: { readonly by: Author; readonly before: Role; readonly now: Role },
): Promise<void> {
  const end = { by: o.by, why: 'right_ended' };
  if (!mayConnectApps(o.now)) {
    await endPartnerGrants(tx, whose, end);
    return;
  }
  const lost = SCOPES.filter((scope) => roleCovers(o.before, scope) && !roleCovers(o.now, scope));
  const { rows } = await tx.query<{ id: string }>(
    `select id from partner_grants
      where shop_id = $1 and user_id = $2 and revoked_at is null and scopes && $3::text[] order by id`,
    [whose.shopId, whose.userId, lost],
  );
  for (const { id } of rows) await endPartnerGrants(tx, { id }, end);
}

/**
 * Allows scopes that an app waits for in a shop. Its next tokens have them. A repeat changes nothing.
 *
 * @returns the scopes that were allowed now.
 * @throws DomainError NOT_FOUND when the shop has no such app.
 */
export function allowWaitingScopes(
  pool: pg.Pool,
  o: Omit<PartnerGrantFor, 'userId'> & { readonly scopes: readonly string[]; readonly by: Author },
): Promise<readonly string[]> {
  return inTransaction(pool, async (tx) => {
    const whose = [o.shopId, o.issuer, o.clientId];
    const { rowCount } = await tx.query(
      'select 1 from installations where shop_id = $1 and issuer = $2 and client_id = $3 for share',
      whose,
    );
    if (rowCount !== 1) {
      const text = 'the shop has no installation of that app';
      throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, text);
    }
    const { rows } = await tx.query<{ scopes: string[] }>(
      `with waiting as (
         select shop_id, id, array(select unnest(waiting_scopes) intersect select unnest($4::text[])) as allowed
           from partner_grants
          where shop_id = $1 and issuer = $2 and client_id = $3 and revoked_at is null
            and waiting_scopes && $4::text[]
          order by id for update
       )
       update partner_grants g
          set scopes = g.scopes || w.allowed,
              waiting_scopes = array(select unnest(g.waiting_scopes) except select unnest(w.allowed))
         from waiting w where g.shop_id = w.shop_id and g.id = w.id
       returning w.allowed as scopes`,
      [...whose, [...o.scopes]],
    );
    const allowed = [...new Set(rows.flatMap(({ scopes }) => scopes))].toSorted();
    if (allowed.length === 0) return allowed;
    await recordAudit(tx, {
      shopId: o.shopId,
      by: o.by,
      action: 'app.scopes_allowed',
      subject: o.clientId,
      detail: { issuer: o.issuer, scopes: allowed },
    });
    return allowed;
  });
}
