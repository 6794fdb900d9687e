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
import type { Exchange } from '../http/exchange.ts';
import type { InFlight, Slot } from '../http/in-flight.ts';
import { reserveResponse } from '../http/large-response.ts';
import { type HttpResponse, type ReserveResponse, send } from '../http/respond.ts';
import type { AccessTokenCheck, SignedIn } from '../oauth/access-token.ts';
import type { Services } from '../services.ts';
import { createCatalogue } from './catalogue.ts';
import { forwardResponse } from './forward-response.ts';
import { createGate, type Gate } from './gate.ts';
import { ICON_PATH, identityAt, sendIcon } from './identity.ts';
import { readMessage, takeOutInvalidArguments } from './message.ts';
import { createOriginRules } from './origins.ts';
import { createProtocol, type Protocol } from './protocol.ts';
import { RPC, rpcError } from './rpc-error.ts';
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
  /** Memory budget for responses that clients have not read yet, by shop. */
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
   * @param exchangeOf returns the facts about the request of a response.
   * @param calendar returns the date that the version calendar of this HTTP listener uses.
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
  const parts: McpParts = {
    ...deps,
    server: { pool, logger, telemetry, catalogue: createCatalogue(), info: identityAt(publicUrl) },
    gate: createGate({ ...deps, tokens, origins: createOriginRules(deps) }),
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

/** The dependencies, and what the server makes of them once. */
interface McpParts extends McpDependencies {
  readonly server: ServerParts;
  readonly gate: Gate;
  readonly protocol: Protocol;
  readonly destinationNames: ReturnType<typeof createDestinationNames>;
}

/** One request, and the facts about it. */
interface McpRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly exchange: Exchange | undefined;
  readonly calendar: Date;
}

/** Answers one request to `/mcp`. */
async function serve(parts: McpParts, request: McpRequest): Promise<void> {
  const { req, res, exchange } = request;
  const headers = parts.gate.headers(req);
  const work = createToolWork();
  const end = endOf(res);
  const hold: ReserveResponse = (bytes) => {
    end.responseReady();
    // A small answer is never rejected: it may be the answer of a write that is done already.
    if (bytes <= SMALL_BYTES) return undefined;
    return reserveResponse(parts.responses, { shopId: exchange?.shopId, res, bytes });
  };
  let slot: Slot | undefined;
  // A tool call continues after its client disconnects, so its slot is kept until the work ends. Otherwise a
  // client could start any number of calls.
  const releaseSlot = (): void => work.whenIdle(() => slot?.release());
  try {
    slot = await parts.inFlight.enter('mcp', exchange);
    const result = await answer(parts, request, { slot, work, end: end.signal });
    if (result instanceof Response) {
      await forwardResponse(result, { req, res, headers, hold });
      return;
    }
    // The work is done. The slot is released even if the client is still sending its body.
    releaseSlot();
    await send(req, res, { ...result, headers: { ...headers, ...result.headers } }, hold);
  } catch (error) {
    releaseSlot();
    if (error instanceof ClientGone) return;
    if (error instanceof HttpError) return send(req, res, refused(error, headers));
    parts.logger.error({ err: error, requestId: exchange?.requestId }, 'mcp request failed');
    const failed = { code: RPC.internal, message: 'Something went wrong on our side.' };
    await send(req, res, rpcError(500, failed, headers));
  } finally {
    releaseSlot();
  }
}

/** Checks a request, reads its body, and lets the protocol answer it. */
async function answer(
  parts: McpParts,
  { req, res, exchange, calendar }: McpRequest,
  { slot, work, end }: { slot: Slot; work: ToolWork; end: AbortSignal },
): Promise<HttpResponse | Response> {
  const { gate, services, readReturn, destinationNames } = parts;
  const admitted = await gate.admit(req);
  if ('answer' in admitted) {
    if (exchange && admitted.rejection) exchange.rejection = admitted.rejection;
    return admitted.answer;
  }
  const { user, actor, source } = admitted;
  if (exchange) {
    exchange.shopId = user.shopId;
    exchange.actorId = String(user.userId);
  }
  const budgets = budgetsOf(parts, user, res);
  const meter = exchange ?? { bodyBytes: 0 };
  const read = await slot.during(() => readMessage(req, res, { meter, ...budgets }));
  if (!read.ok) return read.answer;
  if (exchange) exchange.operation = read.operation;
  const { message, invalidArguments } = takeOutInvalidArguments(read.message);
  const refusal = await gate.count(message, user);
  if (refusal) return refusal;
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
    server: () =>
      createServer(parts.server, { context, requestId, source, invalidArguments, work }),
    signal: end,
  };
  return forCaller(end, () => parts.protocol.answer(call));
}

/** What the body of a request of this user is charged to. */
function budgetsOf({ byteQuota, limits, bodies }: McpParts, user: SignedIn, res: ServerResponse) {
  const charge = bodyCharge({
    quota: byteQuota,
    shopId: user.shopId,
    takePoints: (points) => limits.body(user.userId, points),
  });
  const reserved = bodies.open({ caller: `user:${user.userId}`, shop: String(user.shopId), res });
  return { charge, reserved };
}

/** A refusal of the gateway as a JSON-RPC error. */
function refused({ error, headers }: HttpError, common: Record<string, string>): HttpResponse {
  const { detail: message } = error.problem;
  return rpcError(error.status, { code: RPC.internal, message }, { ...common, ...headers });
}

/** Concurrent calls with the same token are checked by one database read, which begins after the last of them. */
function coalesceChecks(tokens: AccessTokenCheck): AccessTokenCheck['check'] {
  return createCoalescer(async (token, count) =>
    new Array<SignedIn | undefined>(count).fill(await tokens.check(token)),
  );
}
