import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { type Author, recordAudit } from './audit.ts';
import type { Role } from './permissions.ts';

/** An assistant that acts for a member of a shop. */
export interface ActiveGrant {
  readonly id: string;
  readonly shopId: bigint;
  readonly shopName: string;
  readonly userId: bigint;
  readonly userName: string | null;
  readonly email: string;
  readonly clientId: string;
  /** Host or scheme of the assistant's app; null when unknown. */
  readonly app: string | null;
  /** The name that the app gives itself; null when unknown. Nobody verified it. */
  readonly selfName: string | null;
  /** The current role of the member. */
  readonly role: Role;
  /** Whether the member allowed the assistant only to read. */
  readonly isReadOnly: boolean;
  /** Truncated to milliseconds, because the next page begins after a `Date`. */
  readonly createdAt: Date;
  readonly expiresAt: Date;
  /** Written once a minute; null when the assistant never made a call. */
  readonly lastUsedAt: Date | null;
}

/**
 * Lists active grants. The oldest is first, unless `isNewestFirst`.
 *
 * @param o.shopId only grants of this shop; grants of all shops when absent.
 * @param o.userId only grants of this member.
 * @param o.after the last grant of the previous page.
 */
export async function listGrants(
  db: Queryable,
  o: {
    readonly shopId?: bigint | undefined;
    readonly userId?: bigint;
    readonly limit?: number;
    readonly after?: Pick<ActiveGrant, 'id' | 'createdAt'>;
    readonly isNewestFirst?: boolean;
  } = {},
): Promise<ActiveGrant[]> {
  const [next, order] = o.isNewestFirst ? ['<', 'desc'] : ['>', 'asc'];
  const { rows } = await db.query<ActiveGrant>(
    `select g.id, g.shop_id as "shopId", s.name as "shopName", g.user_id as "userId",
            u.name as "userName", u.email, g.client_id as "clientId", g.app, g.self_name as "selfName",
            m.role, g.read_only as "isReadOnly",
            date_trunc('milliseconds', g.created_at) as "createdAt", g.expires_at as "expiresAt",
            g.last_used_at as "lastUsedAt"
       from oauth_grants g
       join memberships m on m.shop_id = g.shop_id and m.user_id = g.user_id
       join users u on u.id = g.user_id
       join shops s on s.id = g.shop_id
      where g.revoked_at is null and g.expires_at > now()
        and ($1::bigint is null or g.shop_id = $1)
        and ($2::bigint is null or g.user_id = $2)
        and ($3::timestamptz is null
             or (date_trunc('milliseconds', g.created_at), g.id) ${next} ($3::timestamptz, $4::text))
      order by date_trunc('milliseconds', g.created_at) ${order}, g.id ${order}
      limit $5`,
    [
      o.shopId ?? null,
      o.userId ?? null,
      o.after?.createdAt ?? null,
      o.after?.id ?? null,
      o.limit ?? null,
    ],
  );
  return rows;
}

/**
 * Disconnects an assistant: from its next call on, the gateway rejects its tokens. A grant that is already revoked
 * counts as success when `o.shopId` is given, and as NOT_FOUND otherwise (operators).
 *
 * @param o.shopId only a grant of this shop.
 * @param o.userId only a grant of this member.
 * @throws DomainError NOT_FOUND when there is no such grant.
 */
export function revokeGrant(
  pool: pg.Pool,
  o: {
    readonly id: string;
    readonly by: Author;
    readonly shopId?: bigint;
    readonly userId?: bigint;
  },
): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<{ isRevoked: boolean }>(
      `select revoked_at is not null as "isRevoked" from oauth_grants
        where id = $1 and ($2::bigint is null or shop_id = $2) and ($3::bigint is null or user_id = $3)`,
      [o.id, o.shopId ?? null, o.userId ?? null],
    );
    const [found] = rows;
    if (!found || (found.isRevoked && o.shopId === undefined)) {
      throw new DomainError(
        Code.NotFound,
        ErrorReason.UNSPECIFIED,
        'there is no such active grant',
      );
    }
    await endGrants(tx, { id: o.id }, { by: o.by, why: 'revoked' });
  });
}

/** Selects one grant, or all grants of a member. */
export type GrantSelector =
  | { readonly id: string }
  | { readonly shopId: bigint; readonly userId: bigint };

/**
 * Ends grants, with their codes, refresh tokens and access tokens. Writes an audit entry for each grant that was
 * active. Idempotent.
 *
 * @returns the number of grants that were active.
 */
export async function endGrants(
  tx: Queryable,
  selector: GrantSelector,
  o: { readonly by: Author; readonly why: string },
): Promise<number> {
  const [condition, values] =
    'id' in selector
      ? ['id = $1', [selector.id]]
      : ['shop_id = $1 and user_id = $2', [selector.shopId, selector.userId]];
  // The loop below also updates other grants of the member. These locks are taken in a fixed order, so that two
  // transactions that end different grants cannot deadlock.
  await tx.query(
    `select from oauth_grants
      where (shop_id, user_id) in (select shop_id, user_id from oauth_grants where ${condition})
      order by shop_id, user_id, id for update`,
    values,
  );
  const { rows } = await tx.query<{
    id: string;
    shopId: bigint;
    userId: bigint;
    clientId: string;
    app: string | null;
  }>(
    `update oauth_grants set revoked_at = now() where ${condition} and revoked_at is null
     returning id, shop_id as "shopId", user_id as "userId", client_id as "clientId", app`,
    values,
  );
  await tx.query(
    `delete from oauth_tickets where grant_id in (select id from oauth_grants where ${condition})`,
    values,
  );
  for (const { id, shopId, userId, clientId, app } of rows) {
    // The user's other grants of this shop for the same client and app do not end. They lose `consented_at`, so that
    // the next sign-in asks for consent again.
    await tx.query(
      `update oauth_grants set consented_at = null
        where user_id = $1 and shop_id = $2 and client_id = $3 and app is not distinct from $4
          and consented_at is not null`,
      [userId, shopId, clientId, app],
    );
    const detail = { user_id: String(userId), client_id: clientId, why: o.why };
    await recordAudit(tx, {
      shopId,
      by: o.by,
      action: 'assistant.disconnected',
      subject: id,
      detail: { ...detail, ...(app !== null && { app }) },
    });
  }
  return rows.length;
}
