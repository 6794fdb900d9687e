import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { CLIENT_INFO_META_KEY } from '@modelcontextprotocol/server';
import express from 'express';
import type pg from 'pg';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { forCaller } from '../../services/platform/rpc/caller.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import type { Telemetry } from '../../services/platform/telemetry/telemetry.ts';
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
import { drained, reserveResponse } from '../http/large-response.ts';
import { type HttpResponse, type ReserveResponse, send } from '../http/respond.ts';
import { isLoopback } from '../oauth/clients/redirect-uri.ts';
import { selfNameOf } from '../oauth/clients/self-name.ts';
import type { AccessTokenCheck, SignedIn } from '../oauth/tokens/access-token.ts';
import type { Services } from '../services.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { createCatalogue } from './catalogue.ts';
import { parametersError, readMessage, removeInvalidArguments } from './http/message.ts';
import { createOriginRules } from './http/origins.ts';
import { createProtocol, kindOf, type Protocol } from './http/protocol.ts';
import { createRequestGuard, type RequestGuard } from './http/request-guard.ts';
import { idOf, RPC, rpcError } from './http/rpc-error.ts';
import { ICON_PATH, identityAt, sendIcon } from './identity.ts';
import { createServer, type ServerParts } from './server.ts';
import { createToolWork, type ToolWork } from './tool-work.ts';

interface McpDependencies {
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
  readonly audit: AuditWriter;
  readonly clientIp: ClientIp;
  readonly inFlight: InFlight;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Public address of this service, without a trailing slash. */
  readonly publicUrl: string;
  readonly allowedOrigins: readonly string[];
}

interface McpServer {
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
  const { logger, telemetry, pool, audit, publicUrl } = deps;
  const tokens = { check: coalesceChecks(deps.tokens) };
  const parts: McpContext = {
    ...deps,
    server: {
      pool,
      audit,
      logger,
      telemetry,
      catalogue: createCatalogue(),
      info: identityAt(publicUrl),
    },
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
  slot.ofShop(user.shopId);
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

/**
 * Stores the name that a program on the user's machine gives itself in `initialize`, or in `_meta` of a request. A grant
 * that has a name keeps it.
 */
async function rememberClientName(
  db: Queryable,
  { shopId, grantId, app, selfName }: SignedIn,
  message: object,
): Promise<void> {
  if (selfName !== null || app === null || !isLoopback(`http://${app}`)) return;
  const name = selfNameOf(clientNameIn(message));
  if (name === undefined) return;
  await db.query(
    'update oauth_grants set self_name = $3 where shop_id = $1 and id = $2 and self_name is null',
    [shopId, grantId, name],
  );
}

function clientNameIn(message: object): unknown {
  const params: unknown = Reflect.get(message, 'params');
  const { clientInfo, _meta } = Object(params);
  return Object(clientInfo ?? Object(_meta)[CLIENT_INFO_META_KEY]).name;
}

/** Headers of the library's responses that the client gets. */
const KEPT = ['allow', 'x-accel-buffering'];

/**
 * Sends a response of the MCP library to the client: JSON as a whole, a stream piece by piece.
 *
 * @param o.reserve reserves memory for a JSON response.
 * @throws HttpError when `reserve` cannot reserve the memory.
 */
export async function forwardResponse(
  response: Response,
  o: {
    req: IncomingMessage;
    res: ServerResponse;
    headers: Readonly<Record<string, string>>;
    reserve: ReserveResponse;
  },
): Promise<void> {
  const { req, res } = o;
  const headers: Record<string, string> = { ...o.headers };
  for (const name of KEPT) {
    const value = response.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  const contentType = response.headers.get('content-type');
  if (!response.body || contentType === null) {
    return send(req, res, { status: response.status, headers });
  }
  const { status } = response;
  if (!contentType.startsWith('text/event-stream')) {
    const body = { contentType: 'application/json', text: await response.text() };
    return send(req, res, { status, headers, body }, o.reserve);
  }
  res.statusCode = status;
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  res.setHeader('Content-Type', 'text/event-stream');
  res.flushHeaders();
  // A client that disconnects during the stream is not an error.
  await sendStream(response.body, res).catch(() => res.destroy());
}

/**
 * Sends a stream. It does not use `pipeline`, which adds seven listeners to the response. With four other listeners of
 * the gateway, Node would warn of a listener leak.
 */
async function sendStream(body: ReadableStream, res: ServerResponse): Promise<void> {
  const source = Readable.fromWeb(body);
  const end = (): void => void source.destroy();
  if (res.closed) return end();
  res.once('close', end);
  for await (const piece of source) if (!res.write(piece)) await drained(res);
  res.end();
}
