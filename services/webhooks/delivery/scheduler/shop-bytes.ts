/** What one shop may send to receivers in one minute, and what is left of it. */
export interface ShopBytes {
  /**
   * Takes what a request will send; false when it must wait: then everything of the shop waits until
   * {@link ShopBytes.waitMs} is over. The first request of a minute always goes, whatever its size.
   */
  take(shopId: bigint, bytes: number): boolean;
  /** How long the shop must wait; 0 when it may send. Milliseconds. */
  waitMs(shopId: bigint): number;
  /** Shops that wait. */
  waiting(): number;
}

export interface ShopBytesOptions {
  /** Over all processes. */
  readonly perMinute: number;
  /** The part of all deliveries that this process sends, 0 to 1: it may send as much of the bytes. */
  readonly share: () => number;
  /** Called once for each time that a shop has used its bytes up. */
  readonly onUsedUp: (shopId: bigint) => void;
  /** The monotonic clock, milliseconds (tests). */
  readonly now?: () => number;
}

/** Headers, and what TLS and TCP add: nobody sends many empty requests for free. */
const OVERHEAD_BYTES = 1_024;
const MINUTE_MS = 60_000;
/** A process that has just started has a small share; a busy shop must go on during that time. */
const LEAST_SHARE = 1 / 4;

interface Minute {
  readonly startedMs: number;
  used: number;
}

/**
 * Counts in memory. A minute of a shop begins with its first request. Processes divide the bytes as they
 * divide the shards, so together they stay within the limit, up to four of them; each further one adds at
 * most a quarter.
 */
export function createShopBytes(o: ShopBytesOptions): ShopBytes {
  const now = o.now ?? (() => performance.now());
  const minutes = new Map<bigint, Minute>();
  const usedUp = new Set<bigint>();
  let sweptMs = now();

  function current(shopId: bigint): Minute | undefined {
    const minute = minutes.get(shopId);
    if (!minute || now() - minute.startedMs < MINUTE_MS) return minute;
    minutes.delete(shopId);
    usedUp.delete(shopId);
    return undefined;
  }

  function forgetOld(): void {
    if (now() - sweptMs < MINUTE_MS) return;
    sweptMs = now();
    for (const shopId of [...minutes.keys()]) current(shopId);
  }

  function begin(shopId: bigint): Minute {
    forgetOld();
    const minute: Minute = { startedMs: now(), used: 0 };
    minutes.set(shopId, minute);
    return minute;
  }

  return {
    take(shopId, bytes) {
      const minute = current(shopId) ?? begin(shopId);
      if (usedUp.has(shopId)) return false;
      const limit = o.perMinute * Math.max(LEAST_SHARE, Math.min(1, o.share()));
      const after = minute.used + bytes + OVERHEAD_BYTES;
      if (minute.used > 0 && after > limit) {
        usedUp.add(shopId);
        o.onUsedUp(shopId);
        return false;
      }
      minute.used = after;
      return true;
    },
    waitMs(shopId) {
      // Called for every queue in memory, many times a second.
      const minute = usedUp.has(shopId) ? current(shopId) : undefined;
      return minute ? Math.max(1, minute.startedMs + MINUTE_MS - now()) : 0;
    },
    waiting: () => [...usedUp].filter(current).length,
  };
}
