import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import express from 'express';
import type pg from 'pg';
import { forCaller } from '../../services/platform/caller.ts';
import type { Logger } from '../../services/platform/log.ts';
import type { Telemetry } from '../../services/platform/telemetry.ts';
import { createAssistants } from '../actions/assistants.ts';
import type { ReadReturn } from '../actions/context.ts';
import { createDestinationNames } from '../actions/destination-names.ts';
import { bodyCharge } from '../auth/body-charge.ts';
import type { ByteQuota } from '../auth/byte-quota.ts';
import type { ClientIp } from '../auth/client-ip.ts';
import { createCoalescer } from '../auth/coalesce.ts';
import type { McpLimits } from '../auth/mcp-limits.ts';
import type { RateLimit } from '../auth/rate-limits.ts';
import { HttpError } from '../errors.ts';
import { type BodyBudget, SMALL_BYTES } from '../http/body-budget.ts';
import { ClientGone, endOf } from '../http/client-gone.ts';
import { EXACT_PATHS } from '../http/endpoint.ts';
import { markEnvironment } from '../http/environment.ts';
import type { Exchange } from '../http/exchange.ts';
import type { InFlight, Slot } from '../http/in-flight.ts';
import { reserveResponse } from '../http/large-response.ts';
import { type HttpResponse, type ReserveResponse, send } from '../http/respond.ts';
import type { AccessTokenCheck, SignedIn } from '../oauth/access-token.ts';
import type { Services } from '../services.ts';
import { createCatalogue } from './catalogue.ts';
import { rememberClientName } from './client-name.ts';
import { forwardResponse } from './forward-response.ts';
import { ICON_PATH, identityAt, sendIcon } from './identity.ts';
import { parametersError, readMessage, removeInvalidArguments } from './message.ts';
import { createOriginRules } from './origins.ts';
import { createProtocol, kindOf, type Protocol } from './protocol.ts';
import { createRequestGuard, type RequestGuard } from './request-guard.ts';
import { idOf, RPC, rpcError } from './rpc-error.ts';
import { createServer, type ServerParts } from './server.ts';
import { createToolWork, type ToolWork } from './tool-work.ts';

export interface McpDependencies {
  readonly tokens: AccessTokenCheck;
  readonly services: Services;
  readonly readReturn: ReadReturn;
  /** Tool calls per hour and user. */
  readonly toolCalls: RateLimit;
  /** Requests per minute, by user and by IP address. */
  readonly limits: McpLimits;
  /** Bytes per shop and day. */
  readonly byteQuota: ByteQuota;
  readonly bodies: BodyBudget;
  /** Memory budget of each shop for responses that clients have not read yet. */
  readonly responses: BodyBudget;
  readonly pool: pg.Pool;
  readonly clientIp: ClientIp;
  readonly inFlight: InFlight;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Public address of this service, without a trailing slash. */
  readonly publicUrl: string;
  readonly allowedOrigins: readonly string[];
}

export interface McpServer {
  /**
   * Serves `/mcp` and its icon.
   *
   * @param exchangeOf returns the exchange of a response.
   * @param calendar returns the date of this HTTP listener's version calendar.
   */
  router(
    exchangeOf: (res: ServerResponse) => Exchange | undefined,
    calendar: () => Date,
  ): express.Router;
  stop(): Promise<void>;
}

/** The MCP server: assistants act in the shop of the signed-in user. */
export function createMcp(deps: McpDependencies): McpServer {
  const { logger, telemetry, pool, publicUrl } = deps;
  const tokens = { check: coalesceChecks(deps.tokens) };
  const parts: McpContext = {
    ...deps,
    server: { pool, logger, telemetry, catalogue: createCatalogue(), info: identityAt(publicUrl) },
    guard: createRequestGuard({ ...deps, tokens, origins: createOriginRules(deps) }),
    protocol: createProtocol(logger),
    destinationNames: createDestinationNames(),
  };
  return {
    router(exchangeOf, calendar) {
      const router = express.Router(EXACT_PATHS);
      router.get(ICON_PATH, sendIcon);
      router.all('/mcp', (req, res) =>
        serve(parts, { req, res, exchange: exchangeOf(res), calendar: calendar() }),
      );
      return router;
    },
    stop: () => parts.protocol.close(),
  };
}

/** The dependencies, and the parts that all requests share. */
interface McpContext extends McpDependencies {
  readonly server: ServerParts;
  readonly guard: RequestGuard;
  readonly protocol: Protocol;
  readonly destinationNames: ReturnType<typeof createDestinationNames>;
}

interface McpRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly exchange: Exchange | undefined;
  readonly calendar: Date;
}

/** The values that are known of a request so far. */
interface Progress {
  /** The id of the JSON-RPC request; null until its body was read. */
  id: string | number | null;
}

/** Sends the response to one request to `/mcp`. */
async function serve(parts: McpContext, request: McpRequest): Promise<void> {
  const { req, res, exchange } = request;
  const headers = parts.guard.headers(req);
  const work = createToolWork();
  const end = endOf(res);
  const progress: Progress = { id: null };
  const reserve: ReserveResponse = (bytes) => {
    end.responseReady();
    // Always send a small response, because it may be the result of a write that is already done.
    if (bytes <= SMALL_BYTES) return undefined;
    return reserveResponse(parts.responses, { shopId: exchange?.shopId, res, bytes });
  };
  let slot: Slot | undefined;
  // A tool call continues after its client has disconnected. So its slot is released when its work ends. Otherwise a
  // client could start any number of calls.
  const releaseSlot = (): void => work.whenIdle(() => slot?.release());
  try {
    slot = await parts.inFlight.enter('mcp', exchange);
    const result = await handle(parts, request, { slot, work, end: end.signal, progress });
    if (result instanceof Response) {
      await forwardResponse(result, { req, res, headers, reserve });
      return;
    }
    // Release the slot before sending: the work is done, but the client may still be sending its body.
    releaseSlot();
    await send(req, res, { ...result, headers: { ...headers, ...result.headers } }, reserve);
  } catch (error) {
    releaseSlot();
    if (error instanceof ClientGone) return;
    if (error instanceof HttpError) return send(req, res, toRpcError(error, progress, headers));
    parts.logger.error({ err: error, requestId: exchange?.requestId }, 'mcp request failed');
    const failed = { code: RPC.internal, message: 'Something went wrong on our side.' };
    await send(req, res, rpcError(500, failed, headers));
  } finally {
    releaseSlot();
  }
}

/** Checks a request, reads its body, and returns the response. */
async function handle(
  parts: McpContext,
  { req, res, exchange, calendar }: McpRequest,
  {
    slot,
    work,
    end,
    progress,
  }: { slot: Slot; work: ToolWork; end: AbortSignal; progress: Progress },
): Promise<HttpResponse | Response> {
  const { guard, services, readReturn, destinationNames } = parts;
  const checked = await guard.check(req);
  if (checked.user) markEnvironment(res, checked.user);
  if ('response' in checked) {
    if (exchange && checked.rejection) exchange.rejection = checked.rejection;
    return checked.response;
  }
  const { user, actor, source } = checked;
  if (exchange) {
    exchange.shopId = user.shopId;
    exchange.actorId = String(user.userId);
  }
  const budgets = budgetsOf(parts, user, res);
  const meter = exchange ?? { bodyBytes: 0 };
  const read = await slot.during(() => readMessage(req, res, { meter, ...budgets }));
  if (!read.ok) return read.response;
  progress.id = idOf(read.message);
  if (exchange) exchange.operation = read.operation;
  const { message, invalidArguments } = removeInvalidArguments(read.message);
  const kind = kindOf(req.headers, message);
  const rejection = parametersError(message, kind) ?? (await guard.countToolCall(message, user));
  if (rejection) return rejection;
  // Nothing depends on the name, so a call does not fail because of it.
  await rememberClientName(parts.pool, user, message).catch((err) =>
    parts.logger.warn({ err }, 'name of a client not stored'),
  );
  const shop = { services, readReturn, destinationNames, shopId: user.shopId };
  const assistants = createAssistants(parts.pool, {
    ...user,
    actor,
    from: { source, ...(exchange && { requestId: exchange.requestId }) },
  });
  const context = { ...shop, actor, user, assistants, calendar, callId: randomUUID() };
  const requestId = exchange?.requestId ?? '';
  const call = {
    url: `${parts.publicUrl}/mcp`,
    headers: req.headers,
    message,
    kind,
    server: () =>
      createServer(parts.server, { context, requestId, source, invalidArguments, work }),
    signal: end,
  };
  return forCaller(end, () => parts.protocol.handle(call));
}

/** The quota, limit and memory budget that the body of this user's request is charged to. */
function budgetsOf({ byteQuota, limits, bodies }: McpContext, user: SignedIn, res: ServerResponse) {
  const charge = bodyCharge({
    quota: byteQuota,
    shopId: user.shopId,
    takePoints: (points) => limits.body(user.userId, points),
  });
  const reserved = bodies.open({ caller: `user:${user.userId}`, shop: String(user.shopId), res });
  return { charge, reserved };
}

/** Converts an error of the gateway to a JSON-RPC error. */
function toRpcError(
  { error, headers }: HttpError,
  { id }: Progress,
  common: Record<string, string>,
): HttpResponse {
  const { detail: message } = error.problem;
  const code = error.status === 429 ? RPC.rateLimited : RPC.internal;
  return rpcError(error.status, { code, message, id }, { ...common, ...headers });
}

/**
 * Concurrent checks of one token share a read of the database. A check never uses a read that began before the check.
 * So it always sees a token that was revoked before.
 */
function coalesceChecks(tokens: AccessTokenCheck): AccessTokenCheck['check'] {
  return createCoalescer(async (token, count) =>
    new Array<SignedIn | undefined>(count).fill(await tokens.check(token)),
  );
}
