import type { ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import type { OperationId } from '../../services/contract/operations.ts';
import type { Logger } from '../../services/platform/log.ts';
import {
  createPermits,
  NoPermit,
  type Permits,
  type Release,
} from '../../services/platform/permits.ts';
import type { Telemetry } from '../../services/platform/telemetry.ts';
import { loadRetryAfterS, overloaded } from '../errors.ts';
import type { Exchange } from './exchange.ts';

/** What is bounded on its own: an operation that is slow or overloaded keeps no other out. */
export type LoadName = OperationId | 'mcp' | 'signIn';

/** The place of one request among those in flight. */
export interface Place {
  /** Gives the place up during `wait`, in which the client is to act, and takes one again. @throws HttpRefusal 503. */
  during<T>(wait: () => Promise<T>): Promise<T>;
  release(): void;
}

export interface InFlight {
  /** Takes a place, or waits for one for a moment. @throws HttpRefusal 503. */
  enter(name: LoadName, exchange: Exchange | undefined): Promise<Place>;
  /** Whether some operation may have no place left. */
  isCrowded(): boolean;
  /** Whether there is neither a place nor room to wait for one. If so, the refusal is counted. */
  refuses(name: LoadName): boolean;
}

export const MAX_REQUESTS_IN_FLIGHT = 128;

/** What costs many times as much as a read has so much less room: the wait for an answer stays alike. */
const SHARES: Partial<Record<LoadName, number>> = {
  getReturnDetails: 1,
  assessDispositions: 1 / 4,
  signIn: 1,
};
const SHARE = 1 / 2;

/** A burst is smoothed; beyond it the refusal comes at once. Milliseconds, and its share of the places. */
const QUEUE_MS = 20;
const QUEUE_SHARE = 1 / 8;

/** How often refusals are summed up in the log: a line for each would be load of its own. Milliseconds. */
const LOG_EVERY_MS = 1_000;

/**
 * Bounds the requests that the gateway works on, for each operation apart.
 *
 * @param o.size of the cheapest operation; the others get a share of it.
 */
export function createInFlight(o: {
  readonly size: number;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
}): InFlight {
  const all = new Map<LoadName, Permits>();
  const shed = o.telemetry.meter.createCounter('http.server.shed', {
    description: 'Requests refused because too many were in flight',
  });
  const log = summary(o.logger);

  const permitsOf = (name: LoadName): Permits => {
    const size = Math.max(1, Math.round(o.size * (SHARES[name] ?? SHARE)));
    const maxWaiting = Math.ceil(size * QUEUE_SHARE);
    const known = all.get(name);
    if (known) return known;
    const permits = createPermits({ size, maxWaiting, waitMs: QUEUE_MS });
    all.set(name, permits);
    return permits;
  };
  const count = (name: LoadName): void => {
    shed.add(1, { operation: name });
    log();
  };
  const take = async (name: LoadName, exchange: Exchange | undefined): Promise<Release> => {
    const permits = permitsOf(name);
    try {
      return permits.tryTake() ?? (await permits.take());
    } catch (error) {
      if (!(error instanceof NoPermit)) throw error;
      count(name);
      if (exchange) exchange.isShed = true;
      throw overloaded();
    }
  };

  return {
    isCrowded: () => [...all.values()].some((permits) => permits.isFull()),
    refuses(name) {
      const isFull = all.get(name)?.isFull() ?? false;
      if (isFull) count(name);
      return isFull;
    },
    async enter(name, exchange) {
      let release: Release | undefined = await take(name, exchange);
      return {
        async during(wait) {
          release?.();
          release = undefined;
          const result = await wait();
          release = await take(name, exchange);
          return result;
        },
        release: () => release?.(),
      };
    },
  };
}

/** Counts, and logs the count once in a while. */
function summary(logger: Logger): () => void {
  let refused = 0;
  return () => {
    refused += 1;
    if (refused > 1) return;
    setTimeout(() => {
      logger.warn({ refused }, 'requests refused: too many in flight');
      refused = 0;
    }, LOG_EVERY_MS).unref();
  };
}

/** Bounds the paths of sign-in; a refusal is worded as OAuth does (RFC 6749, 4.1.2.1). */
export function boundSignIn(
  inFlight: InFlight,
  exchangeOf: (res: ServerResponse) => Exchange | undefined,
): RequestHandler {
  return async (_req, res, next) => {
    const exchange = exchangeOf(res);
    if (!exchange?.operation) return next();
    const place = await inFlight.enter('signIn', exchange).catch(() => undefined);
    if (!place) return refuseSignIn(res);
    res.once('close', () => place.release());
    next();
  };
}

function refuseSignIn(res: ServerResponse): void {
  const message = 'There are too many requests at the moment. Try again shortly.';
  res.statusCode = 503;
  res.setHeader('Retry-After', String(loadRetryAfterS()));
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('Content-Type', 'application/json');
  const error = 'temporarily_unavailable';
  res.end(JSON.stringify({ error, error_description: message, message, errors: {} }));
}
