import type { OperationId } from '../../services/contract/operations.ts';
import type { Logger } from '../../services/platform/log.ts';
import type { Telemetry } from '../../services/platform/telemetry.ts';
import { overloaded } from '../errors.ts';
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
  /** Takes a place. @throws HttpRefusal 503. */
  enter(name: LoadName, exchange: Exchange | undefined): Promise<Place>;
  /** Whether some operation may have no place left. */
  isCrowded(): boolean;
  /** Whether there is no place; if so, the refusal is counted. */
  refuses(name: LoadName): boolean;
  /** How many places there are, a burst aside. */
  sizeOf(name: LoadName): number;
}

/** Enough to keep a process busy; more only makes all of them wait longer. */
export const MAX_REQUESTS_IN_FLIGHT = 96;

/** What costs several times as much as a read has less room, so that the wait for an answer stays alike. */
const SHARES: Partial<Record<LoadName, number>> = { assessDispositions: 1 / 4 };

/**
 * A burst, such as a hundred writes sent at once, is served although it is beyond the bound: so many times
 * the bound, and only for so long. What stays crowded longer is overload. Milliseconds.
 */
const BURST = 4;
const BURST_MS = 1_000;
/** For so long after a refusal there is no burst: answers come in batches, and free all places for moments. */
const STRICT_MS = 1_000;

/** How often refusals are summed up in the log: a line for each would be load of its own. Milliseconds. */
const LOG_EVERY_MS = 1_000;

/**
 * Bounds the requests that the gateway works on, for each operation apart.
 *
 * @param o.size of each operation; dispositions get a share of it.
 */
export function createInFlight(o: {
  readonly size: number;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Milliseconds, monotonic. */
  readonly now?: () => number;
}): InFlight {
  const { now = () => performance.now() } = o;
  const loads = new Map<LoadName, Load>();
  const shed = o.telemetry.meter.createCounter('http.server.shed', {
    description: 'Requests refused because too many were in flight',
  });
  const log = summary(o.logger);

  const sizeOf = (name: LoadName): number => Math.max(1, Math.round(o.size * (SHARES[name] ?? 1)));
  const loadOf = (name: LoadName): Load => {
    const load = loads.get(name) ?? newLoad(sizeOf(name));
    loads.set(name, load);
    return load;
  };
  const refuse = (name: LoadName): void => {
    loadOf(name).refusedAt = now();
    shed.add(1, { operation: name });
    log();
  };
  const take = (name: LoadName, exchange: Exchange | undefined): (() => void) => {
    const load = loadOf(name);
    if (!isFull(load, now())) return enterLoad(load, now());
    refuse(name);
    if (exchange) exchange.isShed = true;
    throw overloaded();
  };

  return {
    sizeOf,
    isCrowded: () => [...loads.values()].some((load) => isFull(load, now())),
    refuses(name) {
      const load = loads.get(name);
      if (!load || !isFull(load, now())) return false;
      refuse(name);
      return true;
    },
    async enter(name, exchange) {
      let release: (() => void) | undefined = take(name, exchange);
      return {
        async during(wait) {
          release?.();
          release = undefined;
          const result = await wait();
          release = take(name, exchange);
          return result;
        },
        release: () => release?.(),
      };
    },
  };
}

/** What is in flight of one kind. */
interface Load {
  readonly bound: number;
  used: number;
  /** Since when as many as the bound are in flight; undefined while fewer are. Milliseconds, monotonic. */
  crowdedSince: number | undefined;
  /** When one was refused last. Milliseconds, monotonic. */
  refusedAt: number;
}

function newLoad(bound: number): Load {
  return { bound, used: 0, crowdedSince: undefined, refusedAt: Number.NEGATIVE_INFINITY };
}

function isFull({ bound, used, crowdedSince, refusedAt }: Load, now: number): boolean {
  if (crowdedSince === undefined) return false;
  const isBurst = now - crowdedSince <= BURST_MS && now - refusedAt > STRICT_MS;
  return !isBurst || used >= BURST * bound;
}

/** Answers what gives the place back; the second call does nothing. */
function enterLoad(load: Load, now: number): () => void {
  load.used += 1;
  if (load.used >= load.bound) load.crowdedSince ??= now;
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    load.used -= 1;
    if (load.used < load.bound) load.crowdedSince = undefined;
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
