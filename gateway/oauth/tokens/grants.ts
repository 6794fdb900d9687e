import { Code } from '@connectrpc/connect';
import type { AdapterPayload } from 'oidc-provider';
import type pg from 'pg';
import { z } from 'zod';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { onlyRow } from '../../../services/platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../../../services/platform/postgres/postgres.ts';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import type { MailAdder } from '../../mail/add-mails.ts';
import type { ShopFact } from '../../mail/facts.ts';
import { type Author, recordAudit } from '../../tenancy/audit.ts';
import { endGrants } from '../../tenancy/grants.ts';
import type { GrantStore } from '../adapter.ts';
import type { SupportedClients } from '../clients/supported-clients.ts';
import { accountId, isMemberUntilCommit, parseAccountId } from '../sign-in/account.ts';
import { createOneTimeRecords, type OneTimeRecords } from '../sign-in/one-time-records.ts';
import { MCP_SCOPE, verifyAccessToken } from './access-token.ts';
import { type GrantContext, grantContext } from './grant-context.ts';
import { type GrantFor, mcpResource, storeGrant } from './issue.ts';
import type { OAuthKeys } from './keys.ts';

interface StoredGrant extends GrantFor {
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

/** The author of the audit entry for a grant that ended because its code or refresh token was used twice. */
export const GATEWAY = { actor: { kind: Actor_Kind.SERVICE, id: 'gateway', name: 'Gateway' } };

interface GrantsOptions {
  readonly pool: pg.Pool;
  /** Address of the MCP server. All grants are for it. */
  readonly resource: string;
  readonly clients: SupportedClients;
  readonly logger: Logger;
  /** Mails to the owners; undefined when mails are off. */
  readonly mails: MailAdder | undefined;
}

/** Creates the store of the grants of assistants. Writes their creation and revocation to the audit log. */
export function createGrants(o: GrantsOptions): GrantStore {
  const { pool, resource, clients, logger, mails } = o;
  return {
    async put(id, { scopes: _always, ...grant }) {
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
      const { rows } = await pool.query<StoredGrant & { app: string | null }>(
        `select user_id as "userId", shop_id as "shopId", client_id as "clientId", app,
                created_at as "createdAt", expires_at as "expiresAt"
           from oauth_grants where id = $1 and revoked_at is null and expires_at > now()`,
        [id],
      );
      const [row] = rows;
      const isActive = row && clients.includes(row.clientId, row.app);
      return isActive ? grantPayload(id, { ...row, resource, scopes: [MCP_SCOPE] }) : undefined;
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
export function grantPayload(
  id: string,
  grant: StoredGrant & { readonly resource: string; readonly scopes: readonly string[] },
): AdapterPayload {
  const seconds = (date: Date): number => Math.floor(date.getTime() / 1_000);
  return {
    kind: 'Grant',
    jti: id,
    iat: seconds(grant.createdAt),
    exp: seconds(grant.expiresAt),
    accountId: accountId(grant),
    clientId: grant.clientId,
    resources: { [grant.resource]: grant.scopes.join(' ') },
  };
}

/** 200 with an empty body, or an OAuth error. */
type RevocationResponse =
  | { readonly status: 200 }
  | {
      readonly status: 400 | 401;
      readonly body: { readonly error: string; readonly error_description: string };
    };

/** The grant, client and user of a token. */
interface TokenOwner {
  readonly grantId: string;
  readonly clientId: string;
  readonly userId: string;
}

/** The fields of oidc-provider's record of a refresh token that this file reads. */
const refreshTokenSchema = z.object({
  grantId: z.string(),
  clientId: z.string(),
  accountId: z.string().transform((text, context) => {
    const account = parseAccountId(text);
    if (account) return account;
    context.addIssue({ code: 'custom', message: 'not an account' });
    return z.NEVER;
  }),
});

/**
 * Creates the handler of token revocation (RFC 7009). To revoke an access token or a refresh token ends its grant and
 * all tokens of the grant. The request needs no other credential, because the clients are public. `token_type_hint` is
 * ignored.
 */
export function createRevocation(o: {
  readonly pool: pg.Pool;
  readonly issuer: string;
  readonly keys: OAuthKeys;
  readonly clients: SupportedClients;
  readonly logger: Logger;
}): (sent: {
  readonly token: string;
  /** Empty when the request has no client id. */
  readonly clientId: string;
  /** The client IP address and the id of the HTTP request, for the audit log. */
  readonly from: Pick<Author, 'source' | 'requestId'>;
}) => Promise<RevocationResponse> {
  const oneTimeRecords = createOneTimeRecords(o.pool);
  const resource = mcpResource(o.issuer);

  return async ({ token, clientId, from }) => {
    if (token === '')
      return oauthError(400, 'invalid_request', 'send one parameter token, in a form');
    if (clientId !== '' && !o.clients.ids.includes(clientId)) {
      return oauthError(401, 'invalid_client', 'no such client');
    }
    const owner =
      (await ownerOfRefreshToken(oneTimeRecords, token)) ??
      (await ownerOfAccessToken(token, { ...o, resource }));
    // An unknown or expired token counts as revoked (RFC 7009, 2.2).
    if (!owner) return { status: 200 };
    if (clientId !== '' && owner.clientId !== clientId) {
      return oauthError(400, 'unauthorized_client', 'the token belongs to another client');
    }
    const actor = { kind: Actor_Kind.USER, id: owner.userId, name: '' };
    const ended = await inTransaction(o.pool, (tx) =>
      endGrants(tx, { id: owner.grantId }, { by: { actor, ...from }, why: 'token_revoked' }),
    );
    if (ended > 0) o.logger.info({ ...owner }, 'grant ended by token revocation');
    return { status: 200 };
  };
}

/** The owner of a refresh token; undefined when no such token is stored. */
export async function ownerOfRefreshToken(
  records: OneTimeRecords,
  token: string,
): Promise<TokenOwner | undefined> {
  const stored = refreshTokenSchema.safeParse((await records.find('RefreshToken', token))?.content);
  if (!stored.success) return undefined;
  const { grantId, clientId, accountId } = stored.data;
  return { grantId, clientId, userId: String(accountId.userId) };
}

async function ownerOfAccessToken(
  token: string,
  o: { readonly issuer: string; readonly resource: string; readonly keys: OAuthKeys },
): Promise<TokenOwner | undefined> {
  const claims = (await verifyAccessToken(token, o))?.claims;
  return (
    claims && { grantId: claims.grant_id, clientId: claims.client_id, userId: `${claims.sub}` }
  );
}

function oauthError(status: 400 | 401, error: string, description: string): RevocationResponse {
  return { status, body: { error, error_description: description } };
}
