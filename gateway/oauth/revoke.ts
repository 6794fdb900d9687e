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
import { createTickets, type Tickets } from './tickets.ts';

/** What a client gets: 200 with nothing in it, or an error of OAuth. */
export type Revoked =
  | { readonly status: 200 }
  | {
      readonly status: 400 | 401;
      readonly body: { readonly error: string; readonly error_description: string };
    };

/** What a token belongs to. */
interface Holder {
  readonly grantId: string;
  readonly clientId: string;
  readonly userId: string;
}

/** What oidc-provider keeps with a refresh token, as far as it is needed here. */
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
 * Token revocation (RFC 7009): an access token or a refresh token ends its grant, with all that came of it.
 * Whoever holds a token of a public client may; `token_type_hint` is not needed to tell the two apart.
 */
export function createRevocation(o: {
  readonly pool: pg.Pool;
  readonly issuer: string;
  readonly keys: OAuthKeys;
  readonly clients: SupportedClients;
  readonly logger: Logger;
}): (sent: {
  readonly token: string;
  /** Empty when the client does not name itself. */
  readonly clientId: string;
  /** Where the request came from, for the audit log. */
  readonly from: Pick<Author, 'source' | 'requestId'>;
}) => Promise<Revoked> {
  const tickets = createTickets(o.pool);
  const resource = mcpResource(o.issuer);

  return async ({ token, clientId, from }) => {
    if (token === '') return refused(400, 'invalid_request', 'the parameter token is missing');
    if (clientId !== '' && !o.clients.ids.includes(clientId)) {
      return refused(401, 'invalid_client', 'no such client');
    }
    const holder =
      (await holderOfRefreshToken(tickets, token)) ??
      (await holderOfAccessToken(token, { ...o, resource }));
    // RFC 7009, 2.2: what is no token of ours, or has ended, is revoked already.
    if (!holder) return { status: 200 };
    if (clientId !== '' && holder.clientId !== clientId) {
      return refused(400, 'unauthorized_client', 'the token belongs to another client');
    }
    const actor = { kind: Actor_Kind.USER, id: holder.userId, name: '' };
    const ended = await inTransaction(o.pool, (tx) =>
      endGrants(tx, { id: holder.grantId }, { by: { actor, ...from }, why: 'token_revoked' }),
    );
    if (ended > 0) o.logger.info({ ...holder }, 'grant ended by token revocation');
    return { status: 200 };
  };
}

async function holderOfRefreshToken(tickets: Tickets, token: string): Promise<Holder | undefined> {
  const stored = refreshTokenSchema.safeParse((await tickets.find('RefreshToken', token))?.content);
  if (!stored.success) return undefined;
  const { grantId, clientId, accountId } = stored.data;
  return { grantId, clientId, userId: String(accountId.userId) };
}

async function holderOfAccessToken(
  token: string,
  o: { readonly issuer: string; readonly resource: string; readonly keys: OAuthKeys },
): Promise<Holder | undefined> {
  const claims = (await verifyAccessToken(token, o))?.claims;
  return (
    claims && { grantId: claims.grant_id, clientId: claims.client_id, userId: `${claims.sub}` }
  );
}

function refused(status: 400 | 401, error: string, description: string): Revoked {
  return { status, body: { error, error_description: description } };
}
