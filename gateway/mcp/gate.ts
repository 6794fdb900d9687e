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
import type { Refusal, RefusalReason } from '../auth/refusal.ts';
import type { AccessTokenCheck, SignedIn } from '../oauth/access-token.ts';
import type { Answer } from '../rest/respond.ts';
import { methodOf } from './message.ts';
import type { OriginRules } from './origins.ts';
import { idOf, RPC, rpcError } from './rpc-error.ts';

export interface Admitted {
  readonly user: SignedIn;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** The address that the request came from. */
  readonly source: string;
}

export interface Refused {
  readonly answer: Answer;
  /** For the access line; absent where the request itself is at fault, or there were too many. */
  readonly refusal?: Refusal;
}

export interface Gate {
  /** Headers of every answer. */
  headers(req: IncomingMessage): Record<string, string>;
  /**
   * Who makes the request; or the answer that refuses it. Counts the request, under its user or, when it
   * is refused, under its address. The body is not read for it.
   */
  admit(req: IncomingMessage): Promise<Admitted | Refused>;
  /** Counts a tool call; the answer that refuses it when there were too many. */
  count(message: object, user: SignedIn): Promise<Answer | undefined>;
}

const RETRY_AFTER_S = 5;
const MAX_REFUSED_TOKENS = 10_000;
/** Below the 5 seconds in which changes hold everywhere. Milliseconds. */
const REFUSED_TOKEN_MS = 3_000;
const PREFLIGHT_HEADERS =
  'Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID, traceparent';

/** Host and origin, then the credential (on every method), then the method: the first fault answers. */
export function createGate(o: {
  readonly tokens: AccessTokenCheck;
  readonly toolCalls: RateLimit;
  readonly limits: Pick<McpLimits, 'request' | 'refused' | 'isBlocked'>;
  readonly clientIp: ClientIp;
  readonly publicUrl: string;
  readonly origins: OriginRules;
}): Gate {
  const { origins } = o;
  const challenge = challengeOf(o.publicUrl);
  /** Tokens that were refused a moment ago, by hash: a valid signature of a revoked grant costs a statement. */
  const refusedTokens = createBoundedCache<true>(MAX_REFUSED_TOKENS);
  /** The refusal, or 429 in its place once the address has had too many. */
  const refuse = async (
    req: IncomingMessage,
    answer: Answer,
    reason: RefusalReason,
  ): Promise<Refused> => {
    const admission = await o.limits.refused(addressOf(o.clientIp, req));
    const given = admission.admitted ? answer : tooMany(admission, 'requests');
    return { answer: given, refusal: { reason } };
  };

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
      if (!origins.isOurHost(req.headers)) return refuse(req, foreign('Host'), 'host');
      if (allowed === false) return refuse(req, foreign('Origin'), 'origin');
      if (allowed && isPreflight(req)) return { answer: preflight() };
      // In this header alone: a token in the address is no credential.
      const bearer = bearerOf(req.headers.authorization);
      const token = bearer === undefined ? undefined : bearerToken(bearer);
      if (token === undefined) {
        const reason = bearer === undefined ? 'credential missing' : 'malformed';
        return refuse(req, unauthorized(challenge, bearer), reason);
      }
      const hash = createHash('sha256').update(token).digest('base64');
      const isKnownBad =
        o.limits.isBlocked(addressOf(o.clientIp, req)) && refusedTokens.get(hash) !== undefined;
      const user = isKnownBad ? undefined : await checkOrAway(o.tokens, token);
      if (user === 'away') return { answer: away() };
      if (!user) {
        if (!isKnownBad) refusedTokens.set(hash, true, REFUSED_TOKEN_MS);
        return refuse(req, unauthorized(challenge, token), 'token not accepted');
      }
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
      return admission.away ? away(id) : tooMany(admission, 'tool calls', id);
    },
  };
}

/** @param id of the request; null where its body was not read. */
function tooMany(
  { retryAfterS }: Extract<Admission, { admitted: false }>,
  what: string,
  id: string | number | null = null,
): Answer {
  const message = `Too many ${what}. Try again in ${retryAfterS} s.`;
  const retry = { 'Retry-After': String(retryAfterS) };
  return rpcError(429, { code: RPC.rateLimited, message, id }, retry);
}

/** RFC 9728, 5.1; the metadata of the resource `/mcp` lies at the path that RFC 9728, 3.1 makes of it. */
function challengeOf(publicUrl: string): string {
  const metadata = `${publicUrl}/.well-known/oauth-protected-resource/mcp`;
  return `Bearer resource_metadata="${metadata}", scope="mcp"`;
}

/** Names an error only where something was sent (RFC 6750, 3.1). */
function unauthorized(challenge: string, sent: string | undefined): Answer {
  const error = sent ? ', error="invalid_token"' : '';
  const message = sent
    ? 'Unauthorized: the access token is not valid or has expired. Sign in again.'
    : 'Unauthorized: sign in first.';
  const headers = { 'WWW-Authenticate': `${challenge}${error}` };
  return rpcError(401, { code: RPC.unauthorized, message }, headers);
}

async function checkOrAway(
  tokens: AccessTokenCheck,
  token: string,
): Promise<SignedIn | 'away' | undefined> {
  try {
    return await tokens.check(token);
  } catch (error) {
    if (isOutage(error)) return 'away';
    throw error;
  }
}

function away(id: string | number | null = null): Answer {
  const message = 'The service is not available at the moment. Try again shortly.';
  const headers = { 'Retry-After': String(RETRY_AFTER_S) };
  return rpcError(503, { code: RPC.internal, message, id }, headers);
}

function foreign(what: 'Host' | 'Origin'): Answer {
  return rpcError(403, { code: RPC.refused, message: `Forbidden: this ${what} is not allowed.` });
}

/** A browser asks beforehand, without a credential. */
function isPreflight(req: IncomingMessage): boolean {
  return req.method === 'OPTIONS' && req.headers['access-control-request-method'] !== undefined;
}

function preflight(): Answer {
  const headers = {
    Allow: 'POST',
    'Access-Control-Allow-Methods': 'POST',
    'Access-Control-Allow-Headers': PREFLIGHT_HEADERS,
    'Access-Control-Max-Age': '3600',
  };
  return { status: 204, headers };
}

function wrongMethod(): Answer {
  const message = 'Method not allowed: send JSON-RPC by POST.';
  return rpcError(405, { code: RPC.refused, message }, { Allow: 'POST' });
}

/** The name that timelines show; never the address of the person. */
function actorOf(user: SignedIn): MessageInitShape<typeof ActorSchema> {
  return { kind: Actor_Kind.USER, id: String(user.userId), name: user.name ?? '' };
}
