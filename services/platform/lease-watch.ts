/** The lease of another process, as stored in the database. */
export interface ProcessLease {
  readonly name: string;
  readonly owner: string;
  /** As text with microseconds: each renewal changes it. */
  readonly expiresAt: string;
  /** Time until the expiry by the database's clock; negative after the expiry. Milliseconds. */
  readonly endsInMs: number;
}

/** Distinguishes dead processes from leases that only seem expired because the database's clock was set. */
export interface LeaseWatch {
  /**
   * Returns the leases of dead processes. Such a lease has expired, or its expiry is too far in the future for a real
   * lease. By the monotonic clock it was not renewed for half the length of a lease. A lease that is seen for the first
   * time and has just expired needs no further time.
   *
   * @param leases the leases of all other processes.
   * @param queriedMs when this process started the query for them, by the monotonic clock.
   */
  dead(leases: readonly ProcessLease[], queriedMs: number): ProcessLease[];
}

/** @param ttlMs length of the leases. */
export function createLeaseWatch(ttlMs: number): LeaseWatch {
  /** Each lease with the time at which its current expiry was first seen, by the monotonic clock. */
  let seen = new Map<string, { readonly expiresAt: string; readonly sinceMs: number }>();

  return {
    dead(leases, queriedMs) {
      const seenBefore = seen;
      seen = new Map();
      return leases.filter(({ name, expiresAt, endsInMs }) => {
        const previous = seenBefore.get(name);
        const sinceMs = previous?.expiresAt === expiresAt ? previous.sinceMs : performance.now();
        seen.set(name, { expiresAt, sinceMs });
        if (endsInMs > 0 && endsInMs <= 2 * ttlMs) return false;
        const hasJustExpired = endsInMs <= 0 && endsInMs > -ttlMs;
        return queriedMs - sinceMs >= ttlMs / 2 || (!previous && hasJustExpired);
      });
    },
  };
}
