import type pg from 'pg';
import { z } from 'zod';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Logger } from '../../services/platform/log.ts';
import { inTransaction } from '../../services/platform/postgres.ts';
import type { Author } from '../tenancy/audit.ts';
import { endGrants } from '../tenancy/grants.ts';
import { verifyAccessToken } from './access-token.ts';
import { parseAccountId } from './account.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import { mcpResource } from './issue.ts';
import type { OAuthKeys } from './keys.ts';
import { createOneTimeRecords, type OneTimeRecords } from './one-time-records.ts';

/** 200 with an empty body, or an OAuth error. */
export type RevocationResponse =
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

async function ownerOfRefreshToken(
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
