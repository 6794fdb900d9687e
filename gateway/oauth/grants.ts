import { Code } from '@connectrpc/connect';
import type { AdapterPayload } from 'oidc-provider';
import type pg from 'pg';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError } from '../../services/platform/errors.ts';
import type { Logger } from '../../services/platform/log.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { endGrants } from '../tenancy/grants.ts';
import { MCP_SCOPE } from './access-token.ts';
import { accountId, isMemberUntilCommit } from './account.ts';
import { type Granting, granting } from './granting.ts';
import { type GrantFor, storeGrant } from './issue.ts';

export interface Grant extends GrantFor {
  readonly resource: string;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

/** Who ends a grant whose code or refresh token came a second time. */
const GATEWAY = { actor: { kind: Actor_Kind.SERVICE, id: 'gateway', name: 'Gateway' } };

/** What people let clients do; revoking one ends all that came of it. The audit log has both. */
export interface Grants {
  /**
   * Repeatable: what was granted under that id already is left as it is.
   *
   * @throws DomainError PERMISSION_DENIED when the person is no member of the shop any more; Error when
   *   the id is that of a grant for somebody else, or of one that was revoked.
   */
  put(id: string, grant: GrantFor & { readonly ttlS: number }): Promise<void>;
  /** Undefined when there is none, or it was revoked or has expired. */
  find(id: string): Promise<Grant | undefined>;
  /** Ends the grant with its codes, refresh tokens and access tokens. Repeatable. */
  revoke(id: string): Promise<void>;
}

/** @param resource address of the MCP server, the only one that grants are for. */
export function createGrants(pool: pg.Pool, resource: string, logger: Logger): Grants {
  return {
    async put(id, grant) {
      const known = granting();
      await inTransaction(pool, async (tx) => {
        if (!(await isMemberUntilCommit(tx, grant))) throw noMember();
        const { app, isConsented } = known;
        const isNew = await storeGrant(tx, id, { ...grant, app, isConsented });
        if (isNew) await recordConnected(tx, { id, ...grant, ...known });
      });
    },
    async find(id) {
      const { rows } = await pool.query<Omit<Grant, 'resource'>>(
        `select user_id as "userId", shop_id as "shopId", client_id as "clientId",
                created_at as "createdAt", expires_at as "expiresAt"
           from oauth_grants where id = $1 and revoked_at is null and expires_at > now()`,
        [id],
      );
      const [row] = rows;
      return row && { ...row, resource };
    },
    async revoke(id) {
      const why = 'token_reused';
      const ended = await inTransaction(pool, (tx) => endGrants(tx, { id }, { by: GATEWAY, why }));
      if (ended > 0) logger.warn({ grantId: id, why }, 'grant ended: a code or token came again');
    },
  };
}

/**
 * Whether a person has agreed that this client, with codes that go to this app, acts in that shop: a grant
 * that they were asked for lives. Where one of them was revoked, none counts any more.
 */
export async function hasConsented(
  db: Queryable,
  o: GrantFor & { readonly app: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `select from oauth_grants
      where user_id = $1 and shop_id = $2 and client_id = $3 and app = $4
        and consented_at is not null and revoked_at is null and expires_at > now()
      limit 1`,
    [o.userId, o.shopId, o.clientId, o.app],
  );
  return rowCount === 1;
}

function noMember(): DomainError {
  const text = 'the person is no member of the shop';
  return new DomainError(Code.PermissionDenied, ErrorReason.UNSPECIFIED, text);
}

async function recordConnected(
  tx: Queryable,
  o: GrantFor & Granting & { readonly id: string },
): Promise<void> {
  const { rows } = await tx.query<{ name: string | null }>('select name from users where id = $1', [
    o.userId,
  ]);
  const actor = { kind: Actor_Kind.USER, id: String(o.userId), name: rows[0]?.name ?? '' };
  await recordAudit(tx, {
    shopId: o.shopId,
    by: {
      actor,
      ...(o.source !== undefined && { source: o.source }),
      ...(o.requestId !== undefined && { requestId: o.requestId }),
    },
    action: 'assistant.connected',
    subject: o.id,
    detail: {
      client_id: o.clientId,
      ...(o.app !== undefined && { app: o.app }),
      ...(o.isConsented !== undefined && { consent: o.isConsented ? 'given' : 'remembered' }),
    },
  });
}

/** A grant as oidc-provider knows it. */
export function grantPayload(id: string, grant: Grant): AdapterPayload {
  const seconds = (date: Date): number => Math.floor(date.getTime() / 1_000);
  return {
    kind: 'Grant',
    jti: id,
    iat: seconds(grant.createdAt),
    exp: seconds(grant.expiresAt),
    accountId: accountId(grant),
    clientId: grant.clientId,
    resources: { [grant.resource]: MCP_SCOPE },
  };
}
