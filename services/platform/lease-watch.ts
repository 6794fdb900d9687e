/** The lease of another process, as stored in the database. */
export interface ProcessLease {
  readonly name: string;
  readonly owner: string;
  /** As text with microseconds: each renewal changes it. */
  readonly expiresAt: string;
  /** Time until its end by the database's clock; negative after it. Milliseconds. */
  readonly endsInMs: number;
}

/** Distinguishes dead processes from leases that only seem to be over because the database's clock was set. */
export interface LeaseWatch {
  /**
   * Returns the leases of dead processes. Such a lease is over, or ends later than any lease may, and was not renewed
   * for half a lease by the monotonic clock. A lease that is seen for the first time and ended just now counts at once.
   *
   * @param leases of all other processes.
   * @param askedMs when the database was asked for them, by the monotonic clock.
   */
  dead(leases: readonly ProcessLease[], askedMs: number): ProcessLease[];
}

/** @param ttlMs length of the leases. */
export function createLeaseWatch(ttlMs: number): LeaseWatch {
  /** Each lease with the time at which its present end was first seen, by the monotonic clock. */
  let seen = new Map<string, { readonly expiresAt: string; readonly sinceMs: number }>();

  return {
    dead(leases, askedMs) {
      const before = seen;
      seen = new Map();
      return leases.filter(({ name, expiresAt, endsInMs }) => {
        const known = before.get(name);
        const sinceMs = known?.expiresAt === expiresAt ? known.sinceMs : performance.now();
        seen.set(name, { expiresAt, sinceMs });
        if (endsInMs > 0 && endsInMs <= 2 * ttlMs) return false;
        const hasJustEnded = endsInMs <= 0 && endsInMs > -ttlMs;
        return askedMs - sinceMs >= ttlMs / 2 || (!known && hasJustEnded);
      });
    },
  };
}
