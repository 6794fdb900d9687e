import { overloaded } from './errors.ts';
import { NoPermit, type PermitOptions, Permits } from './permits.ts';

/** Permits that all shops share. One shop may use only a few of them. A shop has at most one call in the shared queue. */
export interface ShopPermits {
  /**
   * Takes a permit and releases it when `end` aborts; without `end` immediately.
   *
   * @throws ConnectError OVERLOADED when too many calls wait or the time is over; the reason of `end` when it aborts.
   */
  takeUntil(shopId: bigint, end: AbortSignal | undefined): Promise<void>;
}

/**
 * @param o.size, `maxWaiting` limits of all shops together.
 * @param o.waitMs maximum time of each of the two waits: for a permit of the shop, then for a shared permit.
 * @param o.perShop limits of one shop: permits in use, and waiting calls.
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
      // A call that waits for a permit of its shop is not in the shared queue.
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
