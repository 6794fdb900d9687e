/** Limits the bytes that one shop sends to receivers in one minute. */
export interface ShopBytes {
  /**
   * Takes the bytes of a request from the limit. Returns false when the limit is reached. Then no delivery of the shop
   * may be sent during {@link ShopBytes.waitMs}. The first request of a minute is always allowed, whatever its size is.
   */
  take(shopId: bigint, bytes: number): boolean;
  /** How long deliveries of the shop must wait; 0 when they may be sent. Milliseconds. */
  waitMs(shopId: bigint): number;
  /** The number of shops that must wait. */
  throttled(): number;
}

export interface ShopBytesOptions {
  /** Limit for one shop, over all processes. Bytes per minute. */
  readonly perMinute: number;
  /** The share of all deliveries that this process sends, 0 to 1. The process may use the same share of the limit. */
  readonly share: () => number;
  /** Called once each time that a shop reaches its limit. */
  readonly onLimitReached: (shopId: bigint) => void;
  /** The monotonic clock, milliseconds (tests). */
  readonly now?: () => number;
}

/**
 * Bytes that each request counts in addition to its body, for headers, TLS and TCP. So many empty requests count, too.
 */
const OVERHEAD_BYTES = 1_024;
const MINUTE_MS = 60_000;
/**
 * Minimum share of a process. A process that has just started owns few shards, and must still be able to send for a
 * busy shop.
 */
const MIN_SHARE = 1 / 4;

interface Minute {
  readonly startedMs: number;
  used: number;
}

/**
 * Creates the limit. The counts are in memory, not in the database. The minute of a shop starts with its first request.
 * Processes divide the limit as they divide the shards. Up to four processes together stay within the limit. Each
 * further process adds at most a quarter of it.
 */
export function createShopBytes(o: ShopBytesOptions): ShopBytes {
  const now = o.now ?? (() => performance.now());
  const minutes = new Map<bigint, Minute>();
  const throttled = new Set<bigint>();
  let droppedOldMs = now();

  function current(shopId: bigint): Minute | undefined {
    const minute = minutes.get(shopId);
    if (!minute || now() - minute.startedMs < MINUTE_MS) return minute;
    minutes.delete(shopId);
    throttled.delete(shopId);
    return undefined;
  }

  function dropOld(): void {
    if (now() - droppedOldMs < MINUTE_MS) return;
    droppedOldMs = now();
    for (const shopId of [...minutes.keys()]) current(shopId);
  }

  function begin(shopId: bigint): Minute {
    dropOld();
    const minute: Minute = { startedMs: now(), used: 0 };
    minutes.set(shopId, minute);
    return minute;
  }

  return {
    take(shopId, bytes) {
      const minute = current(shopId) ?? begin(shopId);
      if (throttled.has(shopId)) return false;
      const limit = o.perMinute * Math.max(MIN_SHARE, Math.min(1, o.share()));
      const after = minute.used + bytes + OVERHEAD_BYTES;
      if (minute.used > 0 && after > limit) {
        throttled.add(shopId);
        o.onLimitReached(shopId);
        return false;
      }
      minute.used = after;
      return true;
    },
    waitMs(shopId) {
      // The scheduler calls this many times a second. So look first into the small set.
      const minute = throttled.has(shopId) ? current(shopId) : undefined;
      return minute ? Math.max(1, minute.startedMs + MINUTE_MS - now()) : 0;
    },
    throttled: () => [...throttled].filter(current).length,
  };
}
