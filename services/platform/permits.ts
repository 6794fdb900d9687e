/** No permit is free, or none became free in time. The work was not started. */
export class NoPermit extends Error {
  override readonly name = 'NoPermit';
}

/** Returns a permit. A second call has no effect. */
export type Release = () => void;

export interface PermitOptions {
  /** Maximum number of permits in use at the same time. */
  readonly size: number;
  /** Maximum number of callers that may wait. */
  readonly maxWaiting: number;
  /** How long a caller waits. Milliseconds. */
  readonly waitMs: number;
}

/** Limits the work in flight and the number of waiting callers. */
export class Permits {
  readonly #o: PermitOptions;
  #used = 0;
  /** Callbacks that pass a permit to waiting callers, in the order of the calls. */
  readonly #waiters = new Set<(release: Release) => void>();

  constructor(o: PermitOptions) {
    this.#o = o;
  }

  /** Takes a free permit unless other callers wait. */
  tryTake(): Release | undefined {
    if (this.#used >= this.#o.size) return undefined;
    this.#used += 1;
    return this.#newRelease();
  }

  /**
   * Waits for a permit, behind earlier callers.
   *
   * @throws NoPermit when too many callers wait or the time is over; the signal's reason when it aborts.
   */
  async take({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<Release> {
    signal?.throwIfAborted();
    const release = this.tryTake();
    if (release) return release;
    if (this.#waiters.size >= this.#o.maxWaiting) throw new NoPermit('too many callers wait');
    return this.#wait(signal);
  }

  /** Permits in use. */
  used(): number {
    return this.#used;
  }

  /** How many callers wait. */
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
