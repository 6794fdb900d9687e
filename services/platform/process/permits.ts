import { overloaded } from '../values/errors.ts';

/** No permit was free, or none became free in time. So the work was not started. */
export class NoPermit extends Error {
  override readonly name = 'NoPermit';
}

/** Gives a permit back. A second call has no effect. */
export type Release = () => void;

interface PermitOptions {
  /** Maximum number of permits in use at the same time. */
  readonly size: number;
  /** Maximum number of callers that may wait. */
  readonly maxWaiting: number;
  /** Maximum time that a caller waits. Milliseconds. */
  readonly waitMs: number;
}

/** Limits the work in flight and the number of waiting callers. */
export class Permits {
  readonly #o: PermitOptions;
  #used = 0;
  /** The waiting callers, in the order of their calls. Each is a callback that gets the permit. */
  readonly #waiters = new Set<(release: Release) => void>();

  constructor(o: PermitOptions) {
    this.#o = o;
  }

  /** Takes a permit if one is free. Returns undefined when none is free, or when other callers wait. */
  tryTake(): Release | undefined {
    if (this.#used >= this.#o.size) return undefined;
    this.#used += 1;
    return this.#newRelease();
  }

  /**
   * Waits for a permit. Callers get permits in the order of their calls.
   *
   * @throws NoPermit when too many callers wait or the time is over; the reason of the signal when it aborts.
   */
  async take({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<Release> {
    signal?.throwIfAborted();
    const release = this.tryTake();
    if (release) return release;
    if (this.#waiters.size >= this.#o.maxWaiting) throw new NoPermit('too many callers wait');
    return this.#wait(signal);
  }

  /** Number of permits in use. */
  used(): number {
    return this.#used;
  }

  /** Number of callers that wait. */
  waiting(): number {
    return this.#waiters.size;
  }

  #newRelease(): Release {
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      const [next] = this.#waiters;
      if (next) next(this.#newRelease());
      else this.#used -= 1;
    };
  }

  #wait(signal: AbortSignal | undefined): Promise<Release> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#waiters.delete(grant);
        signal?.removeEventListener('abort', onAbort);
      };
      const onAbort = (): void => {
        end();
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        end();
        reject(new NoPermit('no permit became free in time'));
      }, this.#o.waitMs);
      const grant = (release: Release): void => {
        end();
        resolve(release);
      };
      this.#waiters.add(grant);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }
}

/** Permits that all shops share. One shop may use only a few of them, and has at most one call in the shared queue. */
interface ShopPermits {
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
