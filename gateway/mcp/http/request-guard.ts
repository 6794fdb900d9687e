import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { Actor_Kind, type ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ENVIRONMENT_HEADER } from '../../../services/contract/environment.ts';
import { isOutage } from '../../../services/platform/postgres/outage.ts';
import { bearerOf, bearerToken } from '../../auth/bearer.ts';
import { createBoundedCache } from '../../auth/bounded-cache.ts';
import { addressOf, type ClientIp } from '../../auth/client-ip.ts';
import type { McpLimits } from '../../auth/mcp-limits.ts';
import type { Admission, RateLimit } from '../../auth/rate-limits.ts';
import type { Rejection, RejectionReason } from '../../auth/rejection.ts';
import type { HttpResponse } from '../../http/respond.ts';
import type { AccessTokenCheck, SignedIn } from '../../oauth/tokens/access-token.ts';
import { methodOf } from './message.ts';
import type { OriginRules } from './origins.ts';
import { idOf, RPC, rpcError } from './rpc-error.ts';

export interface Accepted {
  readonly user: SignedIn;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** The IP address of the client. */
  readonly source: string;
}

export interface Rejected {
  readonly response: HttpResponse;
  /** The user, when the credential is valid and another check rejected the request. */
  readonly user?: SignedIn;
  /** The reason for the access log. Absent for a wrong method, a preflight, an outage and a rate limit. */
  readonly rejection?: Rejection;
}

export interface RequestGuard {
  /** The headers of every response to this request. */
  headers(req: IncomingMessage): Record<string, string>;
  /**
   * Returns the user of the request, or the response that rejects it. Counts an accepted request for its user, and a
   * rejected request for its IP address. Does not read the body.
   */
  check(req: IncomingMessage): Promise<Accepted | Rejected>;
  /**
   * Counts a tool call of the user. Returns a response when the call must not be executed: above the limit, or while
   * the limit cannot be counted. Returns undefined otherwise, and for other messages.
   */
  countToolCall(message: object, user: SignedIn): Promise<HttpResponse | undefined>;
}

const RETRY_AFTER_S = 5;
const MAX_REJECTED_TOKENS = 10_000;
/** How long a rejected token is cached. A change must be effective in every replica after 5 seconds. Milliseconds. */
const REJECTED_TOKEN_MS = 3_000;
const PREFLIGHT_HEADERS =
  'Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID, traceparent';

interface RequestGuardOptions {
  readonly tokens: AccessTokenCheck;
  readonly toolCalls: RateLimit;
  readonly limits: Pick<McpLimits, 'request' | 'rejected' | 'isBlocked'>;
  readonly clientIp: ClientIp;
  readonly publicUrl: string;
  readonly origins: OriginRules;
}

/**
 * Checks host and origin, then the credential (for every method), then the method. The first check that fails makes the
 * response.
 */
export function createRequestGuard(o: RequestGuardOptions): RequestGuard {
  const { origins } = o;
  const credentials = createCredentialCheck(o);
  return {
    headers(req) {
      const { origin } = req.headers;
      const isAllowed =
        origin !== undefined && origins.isOurHost(req.headers) && origins.allows(req.headers);
      return {
        'Cache-Control': 'no-store',
        Vary: 'Origin',
        ...(isAllowed && {
          'Access-Control-Allow-Origin': origin,
          'Access-Control-Expose-Headers': `WWW-Authenticate, Retry-After, ${ENVIRONMENT_HEADER}`,
        }),
      };
    },
    async check(req) {
      const allowed = origins.allows(req.headers);
      if (!origins.isOurHost(req.headers)) return reject(o, req, [forbidden('Host'), 'host']);
      if (allowed === false) return reject(o, req, [forbidden('Origin'), 'origin']);
      if (allowed && isPreflight(req)) return { response: preflight() };
      const checked = await credentials(req);
      if ('response' in checked) return checked;
      const { user } = checked;
      const admission = await o.limits.request(user.userId);
      if (!admission.admitted) return { user, response: tooMany(admission, 'requests') };
      if (req.method === 'OPTIONS')
        return { user, response: { status: 204, headers: { Allow: 'POST' } } };
      if (req.method !== 'POST') return { user, response: wrongMethod() };
      return { user, actor: actorOf(user), source: addressOf(o.clientIp, req) };
    },
    async countToolCall(message, user) {
      if (methodOf(message) !== 'tools/call') return undefined;
      const admission = await o.toolCalls.take(String(user.userId));
      if (admission.admitted) return undefined;
      const id = idOf(message);
      return admission.unavailable ? unavailable(id) : tooMany(admission, 'tool calls', id);
    },
  };
}

/** Creates the check of the token. It returns the user of the token, or the response that rejects the request. */
function createCredentialCheck(o: RequestGuardOptions) {
  const challenge = challengeOf(o.publicUrl);
  /**
   * Hashes of recently rejected tokens. While an address is over its limit of rejected requests, a token in this cache
   * is rejected without the statement that reads its grant.
   */
  const rejectedTokens = createBoundedCache<true>(MAX_REJECTED_TOKENS);
  return async (req: IncomingMessage): Promise<{ readonly user: SignedIn } | Rejected> => {
    // A token in the URL does not count.
    const bearer = bearerOf(req.headers.authorization);
    const token = bearer === undefined ? undefined : bearerToken(bearer);
    if (token === undefined) {
      const reason = bearer === undefined ? 'credential missing' : 'malformed';
      return reject(o, req, [unauthorized(challenge, bearer), reason]);
    }
    const hash = createHash('sha256').update(token).digest('base64');
    const wasRejected =
      o.limits.isBlocked(addressOf(o.clientIp, req)) && rejectedTokens.get(hash) !== undefined;
    const user = wasRejected ? undefined : await checkOrUnavailable(o.tokens, token);
    if (user === 'unavailable') return { response: unavailable() };
    if (user) return { user };
    if (!wasRejected) rejectedTokens.set(hash, true, REJECTED_TOKEN_MS);
    return reject(o, req, [unauthorized(challenge, token), 'token not accepted']);
  };
}

/** Counts a rejected request. Returns its response, or 429 when its IP address had too many rejected requests. */
async function reject(
  { limits, clientIp }: RequestGuardOptions,
  req: IncomingMessage,
  [response, reason]: readonly [HttpResponse, RejectionReason],
): Promise<Rejected> {
  const admission = await limits.rejected(addressOf(clientIp, req));
  const sent = admission.admitted ? response : tooMany(admission, 'requests');
  return { response: sent, rejection: { reason } };
}

/**
 * The response to a request above a limit. @param id the id of the JSON-RPC request; null when the body was not read.
 */
function tooMany(
  { retryAfterS }: Extract<Admission, { admitted: false }>,
  what: string,
  id: string | number | null = null,
): HttpResponse {
  const message = `Too many ${what}. Try again in ${retryAfterS} s.`;
  const retry = { 'Retry-After': String(retryAfterS) };
  return rpcError(429, { code: RPC.rateLimited, message, id }, retry);
}

/** The challenge of RFC 9728, 5.1, with the metadata URL that RFC 9728, 3.1 defines for the resource `/mcp`. */
function challengeOf(publicUrl: string): string {
  const metadata = `${publicUrl}/.well-known/oauth-protected-resource/mcp`;
  return `Bearer resource_metadata="${metadata}", scope="mcp"`;
}

/** The response to a request without a valid token. It has an error code only when a token was sent (RFC 6750, 3.1). */
function unauthorized(challenge: string, sent: string | undefined): HttpResponse {
  const error = sent ? ', error="invalid_token"' : '';
  const message = sent
    ? 'Unauthorized: the access token is not valid or has expired. Sign in again.'
    : 'Unauthorized: sign in first.';
  const headers = { 'WWW-Authenticate': `${challenge}${error}` };
  return rpcError(401, { code: RPC.unauthorized, message }, headers);
}

async function checkOrUnavailable(
  tokens: AccessTokenCheck,
  token: string,
): Promise<SignedIn | 'unavailable' | undefined> {
  try {
    return await tokens.check(token);
  } catch (error) {
    if (isOutage(error)) return 'unavailable';
    throw error;
  }
}

function unavailable(id: string | number | null = null): HttpResponse {
  const message = 'The service is not available at the moment. Try again shortly.';
  const headers = { 'Retry-After': String(RETRY_AFTER_S) };
  return rpcError(503, { code: RPC.internal, message, id }, headers);
}

function forbidden(what: 'Host' | 'Origin'): HttpResponse {
  return rpcError(403, { code: RPC.rejected, message: `Forbidden: this ${what} is not allowed.` });
}

/** Whether the request is a CORS preflight, which has no credential. */
function isPreflight(req: IncomingMessage): boolean {
  return req.method === 'OPTIONS' && req.headers['access-control-request-method'] !== undefined;
}

function preflight(): HttpResponse {
  const headers = {
    Allow: 'POST',
    'Access-Control-Allow-Methods': 'POST',
    'Access-Control-Allow-Headers': PREFLIGHT_HEADERS,
    'Access-Control-Max-Age': '3600',
  };
  return { status: 204, headers };
}

function wrongMethod(): HttpResponse {
  const message = 'Method not allowed: send JSON-RPC by POST.';
  return rpcError(405, { code: RPC.rejected, message }, { Allow: 'POST' });
}

/** Maximum length of `through`, the name of the app that acts for the user. Characters. */
const THROUGH_MAX = 200;

/** The user as an actor, with the name that timelines show. It never contains the e-mail address. */
function actorOf(user: SignedIn): MessageInitShape<typeof ActorSchema> {
  const { userId, name, app, clientId } = user;
  const through = `assistant ${app ?? clientId}`.slice(0, THROUGH_MAX);
  return { kind: Actor_Kind.USER, id: String(userId), name: name ?? '', through };
}
