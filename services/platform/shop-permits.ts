import { overloaded } from './errors.ts';
import { NoPermit, type PermitOptions, Permits } from './permits.ts';

/** Permits shared by shops. One shop has few of them; shops wait in one queue with one place per shop. */
export interface ShopPermits {
  /**
   * Takes a permit and keeps it until `end` aborts. Without `end` no permit is kept.
   *
   * @throws ConnectError OVERLOADED when too many wait or the time is over; the reason of `end`.
   */
  takeUntil(shopId: bigint, end: AbortSignal | undefined): Promise<void>;
}

/**
 * @param o.size and `maxWaiting` for all shops together; `waitMs` for each of the two waits, for the shop's own permit
 *   and for the shared one.
 * @param o.perShop most permits of one shop in use, and how many of its calls wait for one.
 */
export function createShopPermits(
  o: PermitOptions & { readonly perShop: Pick<PermitOptions, 'size' | 'maxWaiting'> },
): ShopPermits {
  const all = new Permits(o);
  const shops = new Map<bigint, Permits>();

  const take = async (shopId: bigint, signal: AbortSignal | undefined): Promise<() => void> => {
    const own = shops.get(shopId) ?? new Permits({ ...o.perShop, waitMs: o.waitMs });
    shops.set(shopId, own);
    const drop = (): void => {
      if (own.used() + own.waiting() === 0 && shops.get(shopId) === own) shops.delete(shopId);
    };
    try {
      // A shop that waits for its own permit has no place in the shared queue.
      const releaseOwn = await own.take({ signal });
      const releaseAll = await all.take({ signal }).catch((error: unknown) => {
        releaseOwn();
        throw error;
      });
      return () => {
        releaseAll();
        releaseOwn();
        drop();
      };
    } catch (error) {
      drop();
      throw error instanceof NoPermit ? overloaded() : error;
    }
  };

  return {
    async takeUntil(shopId, end) {
      const release = await take(shopId, end);
      if (!end || end.aborted) release();
      else end.addEventListener('abort', release, { once: true });
    },
  };
}
