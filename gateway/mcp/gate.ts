import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { Actor_Kind, type ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { isOutage } from '../../services/platform/outage.ts';
import { bearerOf, bearerToken } from '../auth/bearer.ts';
import { createBoundedCache } from '../auth/bounded-cache.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { McpLimits } from '../auth/mcp-limits.ts';
import type { Admission, RateLimit } from '../auth/rate-limits.ts';
import type { Rejection, RejectionReason } from '../auth/rejection.ts';
import type { HttpResponse } from '../http/respond.ts';
import type { AccessTokenCheck, SignedIn } from '../oauth/access-token.ts';
import { methodOf } from './message.ts';
import type { OriginRules } from './origins.ts';
import { idOf, RPC, rpcError } from './rpc-error.ts';

export interface Admitted {
  readonly user: SignedIn;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** The IP address of the client. */
  readonly source: string;
}

export interface Refused {
  readonly answer: HttpResponse;
  /** For the access log; absent for a wrong method, a preflight, an outage or a rate limit. */
  readonly rejection?: Rejection;
}

export interface Gate {
  /** Headers of every response. */
  headers(req: IncomingMessage): Record<string, string>;
  /**
   * Returns the user of the request, or the response that rejects it. Counts the request for its user or, when it
   * is rejected, for its IP address. Does not read the body.
   */
  admit(req: IncomingMessage): Promise<Admitted | Refused>;
  /** Counts a tool call. Returns the response that rejects it when there were too many. */
  count(message: object, user: SignedIn): Promise<HttpResponse | undefined>;
}

const RETRY_AFTER_S = 5;
const MAX_REFUSED_TOKENS = 10_000;
/** Less than the 5 seconds after which a change must be effective in every replica. Milliseconds. */
const REFUSED_TOKEN_MS = 3_000;
const PREFLIGHT_HEADERS =
  'Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID, traceparent';

interface GateOptions {
  readonly tokens: AccessTokenCheck;
  readonly toolCalls: RateLimit;
  readonly limits: Pick<McpLimits, 'request' | 'rejected' | 'isBlocked'>;
  readonly clientIp: ClientIp;
  readonly publicUrl: string;
  readonly origins: OriginRules;
}

/** Checks host and origin, then the credential (for every method), then the method. The first fault decides. */
export function createGate(o: GateOptions): Gate {
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
          'Access-Control-Expose-Headers': 'WWW-Authenticate, Retry-After',
        }),
      };
    },
    async admit(req) {
      const allowed = origins.allows(req.headers);
      if (!origins.isOurHost(req.headers)) return refuse(o, req, [foreign('Host'), 'host']);
      if (allowed === false) return refuse(o, req, [foreign('Origin'), 'origin']);
      if (allowed && isPreflight(req)) return { answer: preflight() };
      const checked = await credentials(req);
      if ('answer' in checked) return checked;
      const { user } = checked;
      const admission = await o.limits.request(user.userId);
      if (!admission.admitted) return { answer: tooMany(admission, 'requests') };
      if (req.method === 'OPTIONS') return { answer: { status: 204, headers: { Allow: 'POST' } } };
      if (req.method !== 'POST') return { answer: wrongMethod() };
      return { user, actor: actorOf(user), source: addressOf(o.clientIp, req) };
    },
    async count(message, user) {
      if (methodOf(message) !== 'tools/call') return undefined;
      const admission = await o.toolCalls.take(String(user.userId));
      if (admission.admitted) return undefined;
      const id = idOf(message);
      return admission.unavailable ? unavailable(id) : tooMany(admission, 'tool calls', id);
    },
  };
}

/** Returns the user whose token a request has, or the response that rejects it. */
function createCredentialCheck(o: GateOptions) {
  const challenge = challengeOf(o.publicUrl);
  /**
   * Tokens that were rejected in the last seconds, by hash. They save the SQL statement that checks the grant of
   * a token with a valid signature.
   */
  const refusedTokens = createBoundedCache<true>(MAX_REFUSED_TOKENS);
  return async (req: IncomingMessage): Promise<{ readonly user: SignedIn } | Refused> => {
    // Only this header counts; a token in the URL is not accepted.
    const bearer = bearerOf(req.headers.authorization);
    const token = bearer === undefined ? undefined : bearerToken(bearer);
    if (token === undefined) {
      const reason = bearer === undefined ? 'credential missing' : 'malformed';
      return refuse(o, req, [unauthorized(challenge, bearer), reason]);
    }
    const hash = createHash('sha256').update(token).digest('base64');
    const isKnownBad =
      o.limits.isBlocked(addressOf(o.clientIp, req)) && refusedTokens.get(hash) !== undefined;
    const user = isKnownBad ? undefined : await checkOrUnavailable(o.tokens, token);
    if (user === 'unavailable') return { answer: unavailable() };
    if (user) return { user };
    if (!isKnownBad) refusedTokens.set(hash, true, REFUSED_TOKEN_MS);
    return refuse(o, req, [unauthorized(challenge, token), 'token not accepted']);
  };
}

/** Counts the rejected request. Returns the given response, or 429 when the address had too many of them. */
async function refuse(
  { limits, clientIp }: GateOptions,
  req: IncomingMessage,
  [answer, reason]: readonly [HttpResponse, RejectionReason],
): Promise<Refused> {
  const admission = await limits.rejected(addressOf(clientIp, req));
  const given = admission.admitted ? answer : tooMany(admission, 'requests');
  return { answer: given, rejection: { reason } };
}

/** @param id of the JSON-RPC request; null when its body was not read. */
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

/** Includes an error code only when a token was sent (RFC 6750, 3.1). */
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

function foreign(what: 'Host' | 'Origin'): HttpResponse {
  return rpcError(403, { code: RPC.refused, message: `Forbidden: this ${what} is not allowed.` });
}

/** A CORS preflight has no credential. */
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
  return rpcError(405, { code: RPC.refused, message }, { Allow: 'POST' });
}

/** The actor with the name that timelines show. The e-mail address is never included. */
function actorOf(user: SignedIn): MessageInitShape<typeof ActorSchema> {
  return { kind: Actor_Kind.USER, id: String(user.userId), name: user.name ?? '' };
}
