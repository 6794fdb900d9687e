import { overloaded } from './errors.ts';
import { createPermits, NoPermit, type PermitOptions, type Permits } from './permits.ts';

/** Permits that shops share: one shop has few of them, and they wait in turn, one place for each shop. */
export interface ShopPermits {
  /**
   * Takes a permit that lasts until `end` aborts; where there is no end, none is kept.
   *
   * @throws ConnectError OVERLOADED when as many wait as may, or none came in time; the reason of `end`.
   */
  takeUntil(shopId: bigint, end: AbortSignal | undefined): Promise<void>;
}

/**
 * @param o.size and `maxWaiting` of all shops; `waitMs` for each of both waits, the shop's own and that of all.
 * @param o.perShop permits of one shop in use, and how many of its calls wait for one.
 */
export function createShopPermits(
  o: PermitOptions & { readonly perShop: Pick<PermitOptions, 'size' | 'maxWaiting'> },
): ShopPermits {
  const all = createPermits(o);
  const shops = new Map<bigint, Permits>();

  const take = async (shopId: bigint, signal: AbortSignal | undefined): Promise<() => void> => {
    const own = shops.get(shopId) ?? createPermits({ ...o.perShop, waitMs: o.waitMs });
    shops.set(shopId, own);
    const forget = (): void => {
      if (own.used() + own.waiting() === 0 && shops.get(shopId) === own) shops.delete(shopId);
    };
    try {
      // A shop that waits for its own permit holds no place in the queue of all.
      const releaseOwn = await own.take({ signal });
      const releaseAll = await all.take({ signal }).catch((error: unknown) => {
        releaseOwn();
        throw error;
      });
      return () => {
        releaseAll();
        releaseOwn();
        forget();
      };
    } catch (error) {
      forget();
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
