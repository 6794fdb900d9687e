import type { OperationId } from '../../services/contract/operation.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import type { Telemetry } from '../../services/platform/telemetry/telemetry.ts';
import { overloaded } from '../errors.ts';
import type { Exchange } from './exchange.ts';

/** Names of loads. Each load has its own slots, so that a slow or overloaded operation does not block the others. */
export type LoadName =
  | OperationId
  | 'mcp'
  | 'portal'
  | 'signIn'
  | 'shopper'
  | 'shopifyWebhook'
  | 'commerceEvents';

export interface Slot {
  /** Takes a part of the shop's share of the slots, too. @throws HttpError 503 when the shop uses all of its share. */
  ofShop(shopId: bigint): void;
  /**
   * Releases the slot while `wait` waits for the client, and then takes a slot again, unless `release` was called in the
   * meantime. @throws HttpError 503 when none is free.
   */
  during<T>(wait: () => Promise<T>): Promise<T>;
  release(): void;
}

export interface InFlight {
  /** Takes a slot. @throws HttpError 503 when none is free. */
  enter(name: LoadName, exchange: Exchange | undefined): Promise<Slot>;
  /** Whether at least one operation has no free slot. */
  isAnyFull(): boolean;
  /**
   * Whether the operation has no free slot. In this case the function counts a shed request, and its caller must reject
   * the request.
   */
  shedIfFull(name: LoadName): boolean;
  /** The number of slots of the operation, without the additional ones for a burst. */
  sizeOf(name: LoadName): number;
}

/**
 * Default number of slots of an operation. This many requests use all the CPU of a process. More would only wait
 * longer.
 */
export const MAX_REQUESTS_IN_FLIGHT = 96;

/**
 * Shares of the slots for operations that cost several times as much as a read, so that response times stay similar.
 */
const SHARES: Partial<Record<LoadName, number>> = {
  assessDispositions: 1 / 4,
  gradeItems: 1 / 4,
};

/**
 * Share of the slots of an operation that all keys, apps and assistants of one shop may use together while others use
 * it, too, so that these find a slot. A shop alone may use all.
 */
const SHOP_PART = 3 / 4;
/**
 * For this time after an accepted request of another shop, an operation counts as used by several. A request that is
 * shed has no shop yet. Milliseconds.
 */
const SHARED_MS = 10_000;

/** A short burst, such as a hundred concurrent writes, may use this multiple of the slots. */
const BURST = 4;
/** Maximum duration of a burst; a longer one is overload. Milliseconds. */
const BURST_MS = 1_000;
/**
 * For this time after a request was shed, no burst is allowed. During a long overload, responses complete in batches
 * and free all slots for a moment. Without this rule, each such moment would look like the start of a new burst.
 * Milliseconds.
 */
const STRICT_MS = 1_000;

/**
 * Interval of the log line with the number of shed requests. One line for each request would add load. Milliseconds.
 */
const LOG_EVERY_MS = 1_000;

/**
 * Bounds the in-flight requests of the gateway, separately for each operation.
 *
 * @param o.size number of slots of each operation. The operations in {@link SHARES} get a part of it.
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
  /** The shares of the shops that use one now, by load and shop. */
  const shares = new Map<string, Load>();
  const shedRequests = o.telemetry.meter.createCounter('http.server.shed', {
    description: 'Requests shed because too many were in flight',
  });
  const log = createShedLog(o.logger);

  const sizeOf = (name: LoadName): number => Math.max(1, Math.round(o.size * (SHARES[name] ?? 1)));
  const loadOf = (name: LoadName): Load => {
    const load = loads.get(name) ?? newLoad(sizeOf(name));
    loads.set(name, load);
    return load;
  };
  const countShed = (name: LoadName, load: Load): void => {
    load.shedAt = now();
    shedRequests.add(1, { operation: name });
    log();
  };
  const take = (
    name: LoadName,
    exchange: Exchange | undefined,
    load = loadOf(name),
  ): (() => void) => {
    if (!isFull(load, now())) return enterLoad(load, now());
    countShed(name, load);
    if (exchange) exchange.isShed = true;
    throw overloaded();
  };

  const takeShare = (name: LoadName, exchange: Exchange | undefined, shop: bigint) => {
    const key = `${name}:${shop}`;
    const share = shares.get(key) ?? newLoad(Math.max(1, Math.floor(sizeOf(name) * SHOP_PART)));
    shares.set(key, share);
    const load = loadOf(name);
    if (load.shop !== undefined && load.shop !== shop) load.sharedAt = now();
    load.shop = shop;
    const isShared = now() - load.sharedAt <= SHARED_MS;
    const release = isShared ? take(name, exchange, share) : enterLoad(share, now());
    return () => {
      release();
      if (share.used === 0) shares.delete(key);
    };
  };

  return {
    sizeOf,
    isAnyFull: () => [...loads.values()].some((load) => isFull(load, now())),
    shedIfFull(name) {
      const load = loads.get(name);
      if (!load || !isFull(load, now())) return false;
      countShed(name, load);
      return true;
    },
    async enter(name, exchange) {
      const taken = [take(name, exchange)];
      let shop: bigint | undefined;
      let hasEnded = false;
      const releaseTaken = (): void => {
        for (const release of taken.splice(0)) release();
      };
      return {
        ofShop(shopId) {
          shop = shopId;
          taken.push(takeShare(name, exchange, shopId));
        },
        async during(wait) {
          releaseTaken();
          const result = await wait();
          // The client may have left during the wait. Nobody would release a slot that is taken after that.
          if (hasEnded) return result;
          taken.push(take(name, exchange));
          if (shop !== undefined) taken.push(takeShare(name, exchange, shop));
          return result;
        },
        release() {
          hasEnded = true;
          releaseTaken();
        },
      };
    },
  };
}

interface Load {
  readonly slots: number;
  used: number;
  /** The time since which all slots are in use; undefined while a slot is free. Milliseconds, monotonic. */
  fullSince: number | undefined;
  /** The time of the last shed request. Milliseconds, monotonic. */
  shedAt: number;
  /** The shop of the last request. */
  shop: bigint | undefined;
  /** The time of the last request whose shop was another than that before. Milliseconds, monotonic. */
  sharedAt: number;
}

function newLoad(slots: number): Load {
  const never = Number.NEGATIVE_INFINITY;
  return { slots, used: 0, fullSince: undefined, shedAt: never, shop: undefined, sharedAt: never };
}

function isFull({ slots, used, fullSince, shedAt }: Load, now: number): boolean {
  if (fullSince === undefined) return false;
  const isBurst = now - fullSince <= BURST_MS && now - shedAt > STRICT_MS;
  return !isBurst || used >= BURST * slots;
}

/** Takes a slot and returns the function that releases it; a second call does nothing. */
function enterLoad(load: Load, now: number): () => void {
  load.used += 1;
  if (load.used >= load.slots) load.fullSince ??= now;
  let isReleased = false;
  return () => {
    if (isReleased) return;
    isReleased = true;
    load.used -= 1;
    if (load.used < load.slots) load.fullSince = undefined;
  };
}

/** Counts shed requests, and logs their number at intervals. */
function createShedLog(logger: Logger): () => void {
  let shed = 0;
  return () => {
    shed += 1;
    if (shed > 1) return;
    setTimeout(() => {
      logger.warn({ shed }, 'requests shed: too many in flight');
      shed = 0;
    }, LOG_EVERY_MS).unref();
  };
}
