import { overloaded } from './errors.ts';
import { NoPermit, type PermitOptions, Permits } from './permits.ts';

/** Permits that all shops share. One shop may use only a few of them, and has at most one call in the shared queue. */
export interface ShopPermits {
  /**
   * Takes a permit. Releases it when `end` aborts, or at once when `end` is undefined.
   *
   * @throws ConnectError OVERLOADED when too many calls wait or the time is over; the reason of `end` when it aborts.
   */
  takeUntil(shopId: bigint, end: AbortSignal | undefined): Promise<void>;
}

/**
 * Creates the permits.
 *
 * @param o.size maximum number of permits in use, over all shops; `o.maxWaiting` is the maximum number of waiting
 *   calls.
 * @param o.waitMs maximum time of each of two waits: for a permit of the shop, and then for a shared permit.
 * @param o.perShop the limits for one shop: permits in use, and waiting calls.
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
      // First wait for a permit of the shop. During this wait the call is not in the shared queue.
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
