import type { IncomingHttpHeaders } from 'node:http';
import type { Operation } from '../../services/contract/operations.ts';
import type { ApiKeyCheck } from '../auth/api-key-check.ts';
import { bearerOf, bearerToken } from '../auth/bearer.ts';
import type { Caller } from '../auth/caller.ts';
import type { PartnerTokenCheck } from '../auth/partner-tokens.ts';
import type { RateLimit } from '../auth/rate-limits.ts';
import type { OnRefused, RefusalReason } from '../auth/refusal.ts';
import { forbidden, type HttpRefusal, rateLimited, unauthorized } from '../errors.ts';

export interface Authentication {
  readonly apiKeys: ApiKeyCheck;
  /** Absent when no partner authorization server is configured; then every token is rejected. */
  readonly partnerTokens: PartnerTokenCheck | undefined;
  /** Limit of rejected credentials per IP address. */
  readonly failedCredentials: RateLimit;
}

/** The parts of a request that authentication needs. */
export interface Presented {
  readonly headers: IncomingHttpHeaders;
  /** The caller's IP address; rejected credentials are counted for it. */
  readonly ip: string;
  readonly onRefused: OnRefused;
}

const KEY_CHALLENGE = 'ApiKey realm="rms"';

/**
 * Step 3 of every request: authenticates the caller.
 *
 * Webhook operations read `Authorization` if its scheme is `Bearer`, else `X-Authorization`. All other operations read
 * only `X-Authorization`. Another scheme, such as the `Basic` of a proxy, is ignored.
 *
 * @throws HttpRefusal 401, or 429 when the address had too many rejected credentials. Rejects with another error when
 *   the database or the partners' key set is unavailable.
 */
export async function authenticate(
  auth: Authentication,
  operation: Operation,
  request: Presented,
): Promise<Caller> {
  const both = operation.credentials === 'bearer-or-api-key';
  const bearer = both ? bearerOf(request.headers.authorization) : undefined;
  const key = single(request.headers['x-authorization'])?.trim();
  if (bearer !== undefined) {
    const caller = await checkBearer(auth, bearer, request.onRefused);
    return (
      caller ?? refuse(auth, request.ip, unauthorized(bearerChallenge(operation, 'invalid_token')))
    );
  }
  if (key) {
    const isBlocked = auth.failedCredentials.isUsedUp(request.ip);
    const { onRefused } = request;
    const caller = await auth.apiKeys.check(key, { isBlocked, onRefused });
    return caller ?? refuse(auth, request.ip, unauthorized(KEY_CHALLENGE));
  }
  request.onRefused({ reason: 'credential missing' });
  throw unauthorized(both ? `${bearerChallenge(operation)}, ${KEY_CHALLENGE}` : KEY_CHALLENGE);
}

/**
 * Step 4: checks that the credential has the scope of the operation.
 *
 * @throws HttpRefusal 403 on dispositioning, 401 elsewhere.
 */
export function requireScope(operation: Operation, caller: Caller, onRefused: OnRefused): void {
  if (caller.scopes.includes(operation.scope)) return;
  onRefused({ reason: 'scope missing' });
  if (operation.forbidden === 'message-403') throw forbidden();
  const isBearer = caller.scheme === 'bearer';
  throw unauthorized(isBearer ? bearerChallenge(operation, 'insufficient_scope') : KEY_CHALLENGE);
}

async function checkBearer(
  auth: Authentication,
  credential: string,
  onRefused: OnRefused,
): Promise<Caller | undefined> {
  const token = bearerToken(credential);
  const refuse = (reason: RefusalReason): undefined => {
    onRefused({ reason });
  };
  if (token === undefined) return refuse('malformed');
  if (!auth.partnerTokens) return refuse('partner tokens not configured');
  return auth.partnerTokens.check(token, onRefused);
}

async function refuse(auth: Authentication, ip: string, refusal: HttpRefusal): Promise<never> {
  const admission = await auth.failedCredentials.take(ip);
  throw admission.admitted ? refusal : rateLimited(admission.retryAfterS);
}

/** The challenge of RFC 6750, section 3; without an error code when no token was sent. */
function bearerChallenge(operation: Operation, error?: string): string {
  const reason = error ? `, error="${error}"` : '';
  return `Bearer realm="rms"${reason}, scope="${operation.scope}"`;
}

function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(', ') : header;
}
