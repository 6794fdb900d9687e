import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import express from 'express';
import type pg from 'pg';
import { forCaller } from '../../services/platform/caller.ts';
import type { Logger } from '../../services/platform/log.ts';
import type { Telemetry } from '../../services/platform/telemetry.ts';
import { createAssistants } from '../actions/assistants.ts';
import { createDestinationNames } from '../actions/destination-names.ts';
import type { ReadReturn } from '../actions/read-returns.ts';
import { bodyCharge } from '../auth/body-charge.ts';
import type { ByteQuota } from '../auth/byte-quota.ts';
import type { ClientIp } from '../auth/client-ip.ts';
import { createGathering } from '../auth/gathered.ts';
import type { McpLimits } from '../auth/mcp-limits.ts';
import type { RateLimit } from '../auth/rate-limits.ts';
import { HttpRefusal } from '../errors.ts';
import { type BodyBudget, SMALL_BYTES } from '../http/body-budget.ts';
import type { Exchange } from '../http/exchange.ts';
import type { InFlight, Place } from '../http/in-flight.ts';
import type { AccessTokenCheck, SignedIn } from '../oauth/access-token.ts';
import { ClientGone, endOf } from '../rest/body.ts';
import { holdAnswer } from '../rest/large-answer.ts';
import { type Answer, type HoldAnswer, send } from '../rest/respond.ts';
import type { Services } from '../services.ts';
import { createCatalogue } from './catalogue.ts';
import { createGate } from './gate.ts';
import { ICON_PATH, identityAt, sendIcon } from './identity.ts';
import { readMessage } from './message.ts';
import { loosened } from './odd-arguments.ts';
import { createOriginRules } from './origins.ts';
import { createProtocol } from './protocol.ts';
import { relay } from './relay.ts';
import { RPC, rpcError } from './rpc-error.ts';
import { createServer, type ServerParts } from './server.ts';
import { createToolWork, type ToolWork } from './tool-work.ts';

export interface McpDependencies {
  readonly tokens: AccessTokenCheck;
  readonly services: Services;
  readonly readReturn: ReadReturn;
  /** Tool calls an hour, by user. */
  readonly toolCalls: RateLimit;
  /** Requests a minute, by user and by address. */
  readonly limits: McpLimits;
  /** Bytes a shop and day. */
  readonly byteQuota: ByteQuota;
  readonly bodies: BodyBudget;
  /** Of answers that wait to be read, by shop. */
  readonly answers: BodyBudget;
  readonly pool: pg.Pool;
  readonly clientIp: ClientIp;
  readonly inFlight: InFlight;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Address of this service as clients know it, without a slash at its end. */
  readonly publicUrl: string;
  /** Origins of pages that may call from a browser. */
  readonly allowedOrigins: readonly string[];
}

export interface McpServer {
  /**
   * Serves exactly `/mcp`, and its icon.
   *
   * @param exchangeOf what is known about an answer's request.
   * @param calendar the day at which the version calendar of this listener stands.
   */
  router(
    exchangeOf: (res: ServerResponse) => Exchange | undefined,
    calendar: () => Date,
  ): express.Router;
  stop(): Promise<void>;
}

/** The MCP server: assistants' door to the shop of whoever signed in. */
export function createMcp(deps: McpDependencies): McpServer {
  const { logger, telemetry, pool, publicUrl } = deps;
  const parts: ServerParts = {
    pool,
    logger,
    telemetry,
    catalogue: createCatalogue(),
    info: identityAt(publicUrl),
  };
  const tokens = { check: checkTogether(deps.tokens) };
  const gate = createGate({ ...deps, tokens, origins: createOriginRules(deps) });
  const protocol = createProtocol(logger);
  const destinationNames = createDestinationNames();
  const { services, readReturn } = deps;

  const answer = async (
    req: IncomingMessage,
    res: ServerResponse,
    known: {
      exchange: Exchange | undefined;
      calendar: Date;
      place: Place;
      work: ToolWork;
      end: AbortSignal;
    },
  ): Promise<Answer | Response> => {
    const { exchange, calendar, place, work, end } = known;
    const admitted = await gate.admit(req);
    if ('answer' in admitted) {
      if (exchange && admitted.refusal) exchange.refusal = admitted.refusal;
      return admitted.answer;
    }
    const { user, actor, source } = admitted;
    if (exchange) {
      exchange.shopId = user.shopId;
      exchange.actorId = String(user.userId);
    }
    const charge = bodyCharge({
      quota: deps.byteQuota,
      shopId: user.shopId,
      takePoints: (points) => deps.limits.body(user.userId, points),
    });
    const meter = exchange ?? { bodyBytes: 0 };
    const holder = { caller: `user:${user.userId}`, shop: String(user.shopId), res };
    const held = deps.bodies.open(holder);
    const read = await place.during(() => readMessage(req, res, { meter, charge, held }));
    if (!read.ok) return read.answer;
    const { operation } = read;
    const { message, oddArguments } = loosened(read.message);
    if (exchange) exchange.operation = operation;
    const refusal = await gate.count(message, user);
    if (refusal) return refusal;
    const shop = { services, readReturn, destinationNames, shopId: user.shopId };
    const assistants = createAssistants(pool, {
      ...user,
      actor,
      from: { source, ...(exchange && { requestId: exchange.requestId }) },
    });
    const who = { actor, user, assistants };
    const context = { ...shop, ...who, calendar, isResumed: false, callId: randomUUID() };
    const request = {
      url: `${publicUrl}/mcp`,
      headers: req.headers,
      message,
      server: () => {
        const requestId = exchange?.requestId ?? '';
        return createServer(parts, { context, requestId, source, oddArguments, work });
      },
      signal: end,
    };
    return forCaller(end, () => protocol.answer(request));
  };

  return {
    router(exchangeOf, calendar) {
      const router = express.Router({ caseSensitive: true, strict: true });
      router.get(ICON_PATH, sendIcon);
      router.all('/mcp', async (req, res) => {
        const headers = gate.headers(req);
        const exchange = exchangeOf(res);
        const work = createToolWork();
        const end = endOf(res);
        const hold: HoldAnswer = (bytes) => {
          end.made();
          // A small one may be that of a write, which is done.
          if (bytes <= SMALL_BYTES) return undefined;
          return holdAnswer(deps.answers, { shopId: exchange?.shopId, res, bytes });
        };
        let place: Place | undefined;
        // A client that leaves does not end what it began: without its place, it could begin any number.
        const leave = (): void => work.whenOver(() => place?.release());
        try {
          place = await deps.inFlight.enter('mcp', exchange);
          const known = { exchange, calendar: calendar(), place, work, end: end.signal };
          const result = await answer(req, res, known);
          if (result instanceof Response) {
            await relay(result, { req, res, headers, hold });
            return;
          }
          // The work is done: whoever is still sending a body, credential or not, keeps nobody out.
          leave();
          await send(req, res, { ...result, headers: { ...headers, ...result.headers } }, hold);
        } catch (error) {
          leave();
          if (error instanceof ClientGone) return;
          if (error instanceof HttpRefusal) return send(req, res, refused(error, headers));
          logger.error({ err: error, requestId: exchange?.requestId }, 'mcp request failed');
          const failed = { code: RPC.internal, message: 'Something went wrong on our side.' };
          await send(req, res, rpcError(500, failed, headers));
        } finally {
          leave();
        }
      });
      return router;
    },
    stop: () => protocol.close(),
  };
}

/** A refusal of the gateway, as JSON-RPC words it. */
function refused({ error, headers }: HttpRefusal, common: Record<string, string>): Answer {
  const { detail: message } = error.problem;
  return rpcError(error.status, { code: RPC.internal, message }, { ...common, ...headers });
}

/** Calls that one assistant makes at once have their token judged by one reading, begun after the last of them. */
function checkTogether(tokens: AccessTokenCheck): AccessTokenCheck['check'] {
  return createGathering(async (token, count) =>
    new Array<SignedIn | undefined>(count).fill(await tokens.check(token)),
  );
}
