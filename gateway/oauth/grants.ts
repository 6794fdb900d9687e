import type { AdapterPayload } from 'oidc-provider';
import type { Queryable } from '../../services/platform/postgres.ts';
import { MCP_SCOPE } from './access-token.ts';
import { accountId } from './account.ts';
import { type GrantFor, storeGrant } from './issue.ts';

export interface Grant extends GrantFor {
  readonly resource: string;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

/** What people let clients do; revoking one ends all that came of it. */
export interface Grants {
  put(id: string, grant: GrantFor & { readonly ttlS: number }): Promise<void>;
  /** Undefined when there is none, or it was revoked. */
  find(id: string): Promise<Grant | undefined>;
  /** Ends the grant with its codes, refresh tokens and access tokens. Repeatable. */
  revoke(id: string): Promise<void>;
}

/** @param resource address of the MCP server, the only one that grants are for. */
export function createGrants(db: Queryable, resource: string): Grants {
  return {
    put: (id, grant) => storeGrant(db, id, grant),
    async find(id) {
      const { rows } = await db.query<Omit<Grant, 'resource'>>(
        `select user_id as "userId", shop_id as "shopId", client_id as "clientId",
                created_at as "createdAt", expires_at as "expiresAt"
           from oauth_grants where id = $1 and revoked_at is null`,
        [id],
      );
      const [row] = rows;
      return row && { ...row, resource };
    },
    async revoke(id) {
      await db.query(
        `with revoked as (
           update oauth_grants set revoked_at = now() where id = $1 and revoked_at is null
         )
         delete from oauth_tickets where grant_id = $1`,
        [id],
      );
    },
  };
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
