import type { Operation } from '../../services/contract/operation.ts';
import { openersAmong, SCOPE_RULES } from '../../services/contract/scopes.ts';
import type { ApiKeyCheck } from '../auth/api-key-check.ts';
import { bearerOf, bearerToken } from '../auth/bearer.ts';
import type { Caller } from '../auth/caller.ts';
import type { PartnerTokenCheck } from '../auth/partner-tokens.ts';
import type { RateLimit } from '../auth/rate-limits.ts';
import type { OnRejected, RejectionReason } from '../auth/rejection.ts';
import { forbidden, type HttpError, rateLimited, unauthorized } from '../errors.ts';
import {
  missingChallenge,
  type Presented,
  rejectedKeyChallenge,
  scopeChallenge,
  tokenChallenge,
} from './challenge.ts';

export interface Authentication {
  readonly apiKeys: ApiKeyCheck;
  /** Undefined when no authorization server for partners is configured. Then every token is rejected. */
  readonly partnerTokens: PartnerTokenCheck | undefined;
  /** Limit of rejected credentials per IP address. */
  readonly failedCredentials: RateLimit;
}

/** The parts of a request that authentication needs. */
export interface CredentialRequest extends Presented {
  /** The caller's IP address; rejected credentials are counted for it. */
  readonly ip: string;
  readonly onRejected: OnRejected;
}

/**
 * Step 3 of every request: authenticates the caller.
 *
 * Operations with `credentials: 'bearer-or-api-key'`, such as those of webhooks, read `Authorization` if its scheme is
 * `Bearer`, else `X-Authorization`. Other schemes, such as the `Basic` of a proxy, are ignored. All other operations
 * read only `X-Authorization`. On operations with `earlierKeysFirst`, see {@link earlierCaller}.
 *
 * @throws HttpError 401, or 429 when the address had too many rejected credentials; another error when the database or
 *   the partners' key set is unavailable.
 */
export async function authenticate(
  auth: Authentication,
  operation: Operation,
  request: CredentialRequest,
): Promise<Caller> {
  const both = operation.credentials === 'bearer-or-api-key';
  const bearer = both ? bearerOf(request.headers.authorization) : undefined;
  const key = single(request.headers['x-authorization'])?.trim();
  if (bearer !== undefined) {
    const earlier = operation.earlierKeysFirst && key && (await earlierCaller(auth, key, request));
    if (earlier) return earlier;
    const caller = await checkBearer(auth, bearer, request.onRejected);
    return caller ?? reject(auth, request.ip, unauthorized(tokenChallenge(operation, request)));
  }
  if (key) {
    const isBlocked = auth.failedCredentials.isUsedUp(request.ip);
    const { onRejected } = request;
    const caller = await auth.apiKeys.check(key, { isBlocked, onRejected });
    return caller ?? reject(auth, request.ip, unauthorized(rejectedKeyChallenge(request)));
  }
  request.onRejected({ reason: 'credential missing' });
  throw unauthorized(missingChallenge(operation, request));
}

/** The scopes that came into being together with the reading of tokens by operations of `returns`. */
const LATER_SCOPES: readonly string[] = SCOPE_RULES.returns.includes ?? [];

/**
 * The caller of a valid key with none of the later scopes. Before these scopes, the operation did not read
 * `Authorization`, so a key got its response whatever a proxy or a client put there. It still does.
 */
async function earlierCaller(
  auth: Authentication,
  key: string,
  { ip }: CredentialRequest,
): Promise<Caller | undefined> {
  const isBlocked = auth.failedCredentials.isUsedUp(ip);
  const caller = await auth.apiKeys.check(key, { isBlocked });
  return caller?.scopes.some((scope) => LATER_SCOPES.includes(scope)) ? undefined : caller;
}

/**
 * Step 4: checks that the credential has a scope that opens the operation.
 *
 * @throws HttpError 403 on dispositioning, 401 elsewhere.
 */
export function requireScope(operation: Operation, caller: Caller, onRejected: OnRejected): void {
  if (openersAmong(caller.scopes, operation).length > 0) return;
  onRejected({ reason: caller.lacksPermission ? 'permission missing' : 'scope missing' });
  const challenge = scopeChallenge(operation, caller);
  throw operation.forbidden === 'message-403' ? forbidden(challenge) : unauthorized(challenge);
}

async function checkBearer(
  auth: Authentication,
  credential: string,
  onRejected: OnRejected,
): Promise<Caller | undefined> {
  const token = bearerToken(credential);
  const reject = (reason: RejectionReason): undefined => {
    onRejected({ reason });
  };
  if (token === undefined) return reject('malformed');
  if (!auth.partnerTokens) return reject('partner tokens not configured');
  return auth.partnerTokens.check(token, onRejected);
}

/** Counts the rejected credential. Throws `error`, or 429 when the address had too many. */
async function reject(auth: Authentication, ip: string, error: HttpError): Promise<never> {
  const admission = await auth.failedCredentials.take(ip);
  if (admission.admitted) throw error;
  throw rateLimited(admission.retryAfterS);
}

function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(', ') : header;
}
