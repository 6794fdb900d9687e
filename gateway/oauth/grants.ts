import { Code } from '@connectrpc/connect';
import type { AdapterPayload } from 'oidc-provider';
import type pg from 'pg';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError } from '../../services/platform/errors.ts';
import type { Logger } from '../../services/platform/log.ts';
import { onlyRow } from '../../services/platform/only-row.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres.ts';
import type { MailAdder } from '../mail/add-mails.ts';
import type { ShopFact } from '../mail/facts.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { endGrants } from '../tenancy/grants.ts';
import { MCP_SCOPE } from './access-token.ts';
import { accountId, isMemberUntilCommit } from './account.ts';
import { type GrantContext, grantContext } from './grant-context.ts';
import { type GrantFor, storeGrant } from './issue.ts';

export interface Grant extends GrantFor {
  readonly resource: string;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

/** The author of the audit entry for a grant that ended because its code or refresh token was used twice. */
const GATEWAY = { actor: { kind: Actor_Kind.SERVICE, id: 'gateway', name: 'Gateway' } };

/** Stores grants. Writes their creation and revocation to the audit log. */
export interface Grants {
  /**
   * Stores a grant. Idempotent: does not change an existing grant with this id.
   *
   * @throws DomainError PERMISSION_DENIED when the user is no longer a member of the shop; Error when the id belongs to
   *   another user's grant, or to a revoked one.
   */
  put(id: string, grant: GrantFor & { readonly ttlS: number }): Promise<void>;
  /** Undefined when the grant does not exist, is revoked or has expired. */
  find(id: string): Promise<Grant | undefined>;
  /** Ends a grant whose code or refresh token was used twice. Idempotent. */
  revoke(id: string): Promise<void>;
}

export interface GrantsOptions {
  readonly pool: pg.Pool;
  /** Address of the MCP server. All grants are for it. */
  readonly resource: string;
  readonly logger: Logger;
  /** Mails to the owners; undefined when mails are off. */
  readonly mails: MailAdder | undefined;
}

export function createGrants({ pool, resource, logger, mails }: GrantsOptions): Grants {
  return {
    async put(id, grant) {
      const context = grantContext();
      await inTransaction(pool, async (tx) => {
        if (!(await isMemberUntilCommit(tx, grant))) throw notMember();
        const { app, isConsented, isReadOnly, selfName } = context;
        const how = { app, isConsented, isReadOnly, selfName };
        const isNew = await storeGrant(tx, id, { ...grant, ...how });
        if (!isNew) return;
        await recordConnected(tx, { id, ...grant, ...context });
        await mails?.add(tx, [connectedFact(grant, app)]);
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
      if (ended > 0) logger.warn({ grantId: id, why }, 'grant ended: a code or token was reused');
    },
  };
}

/** What the user allowed on a consent page. */
export interface Consent {
  readonly isReadOnly: boolean;
}

/**
 * Returns the newest consent of the user for this shop, client and app. Undefined when no active grant has consent.
 * When a grant is revoked, the other grants of the same user, shop, client and app lose their consent.
 */
export async function consentOf(
  db: Queryable,
  o: GrantFor & { readonly app: string },
): Promise<Consent | undefined> {
  const { rows } = await db.query<Consent>(
    `select read_only as "isReadOnly" from oauth_grants
      where user_id = $1 and shop_id = $2 and client_id = $3 and app = $4
        and consented_at is not null and revoked_at is null and expires_at > now()
      order by consented_at desc limit 1`,
    [o.userId, o.shopId, o.clientId, o.app],
  );
  return rows[0];
}

function notMember(): DomainError {
  const text = 'the user is not a member of the shop';
  return new DomainError(Code.PermissionDenied, ErrorReason.UNSPECIFIED, text);
}

async function recordConnected(
  tx: Queryable,
  o: GrantFor & GrantContext & { readonly id: string },
): Promise<void> {
  const result = await tx.query<{ name: string | null }>('select name from users where id = $1', [
    o.userId,
  ]);
  const actor = { kind: Actor_Kind.USER, id: String(o.userId), name: onlyRow(result).name ?? '' };
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
      ...(o.selfName !== undefined && { calls_itself: o.selfName }),
      ...(o.isConsented !== undefined && { consent: o.isConsented ? 'given' : 'remembered' }),
      ...(o.isReadOnly && { access: 'read_only' }),
    },
  });
}

/** The fact for a mail to the owners. There is at most one a day for each user, client and app. */
function connectedFact({ shopId, userId, clientId }: GrantFor, app = ''): ShopFact {
  const at = new Date().toISOString();
  const fact = { user_id: String(userId), client_id: clientId, app };
  return {
    shopId,
    subject: `assistant:${userId}:${app}:${clientId}`.slice(0, 1_000),
    fact: { kind: 'assistant_connected', at, ...fact },
  };
}

/** Converts a grant to the form that oidc-provider uses. */
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
