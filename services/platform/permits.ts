/** There is no permit, or none came in time: the work was not begun. */
export class NoPermit extends Error {
  override readonly name = 'NoPermit';
}

/** Gives a permit back; the second call does nothing. */
export type Release = () => void;

export interface Permits {
  /** A permit if one is free and nobody waits. */
  tryTake(): Release | undefined;
  /**
   * Waits for a permit, behind those who came before.
   *
   * @throws NoPermit when as many wait as may, or none came in time; the signal's reason when it aborts.
   */
  take(o?: { readonly signal?: AbortSignal | undefined }): Promise<Release>;
  /** Permits in use. */
  used(): number;
  /** How many wait. */
  waiting(): number;
}

export interface PermitOptions {
  /** Permits in use at the same time. */
  readonly size: number;
  /** How many may wait for one. */
  readonly maxWaiting: number;
  /** How long they wait. Milliseconds. */
  readonly waitMs: number;
}

interface Waiter {
  readonly grant: (release: Release) => void;
}

/** Bounds what is in flight, and what waits for it. */
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
