/** No permit is free, or none became free in time. The work was not started. */
export class NoPermit extends Error {
  override readonly name = 'NoPermit';
}

/** Returns a permit. A second call has no effect. */
export type Release = () => void;

export interface Permits {
  /** Takes a free permit unless other callers wait. */
  tryTake(): Release | undefined;
  /**
   * Waits for a permit, behind earlier callers.
   *
   * @throws NoPermit when too many wait or the time is over; the signal's reason when it aborts.
   */
  take(o?: { readonly signal?: AbortSignal | undefined }): Promise<Release>;
  /** Permits in use. */
  used(): number;
  /** How many callers wait. */
  waiting(): number;
}

export interface PermitOptions {
  /** Most permits in use at the same time. */
  readonly size: number;
  /** Most callers that may wait. */
  readonly maxWaiting: number;
  /** How long a caller waits. Milliseconds. */
  readonly waitMs: number;
}

interface Waiter {
  readonly grant: (release: Release) => void;
}

/** Limits the work in flight and the number of waiting callers. */
export function createPermits({ size, maxWaiting, waitMs }: PermitOptions): Permits {
  let used = 0;
  const waiters = new Set<Waiter>();

  const newRelease = (): Release => {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const [next] = waiters;
      if (!next) {
        used -= 1;
        return;
      }
      waiters.delete(next);
      next.grant(newRelease());
    };
  };
  const tryTake = (): Release | undefined => {
    if (used >= size) return undefined;
    used += 1;
    return newRelease();
  };
  const wait = (signal: AbortSignal | undefined): Promise<Release> =>
    new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        waiters.delete(waiter);
        signal?.removeEventListener('abort', onAbort);
      };
      const onAbort = (): void => {
        end();
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        end();
        reject(new NoPermit('none came in time'));
      }, waitMs);
      const waiter: Waiter = {
        grant(release) {
          end();
          resolve(release);
        },
      };
      waiters.add(waiter);
      signal?.addEventListener('abort', onAbort, { once: true });
    });

  return {
    tryTake,
    async take({ signal } = {}) {
      signal?.throwIfAborted();
      const release = tryTake();
      if (release) return release;
      if (waiters.size >= maxWaiting) throw new NoPermit('too many wait already');
      return wait(signal);
    },
    used: () => used,
    waiting: () => waiters.size,
  };
}
