/** The stored lease by which another process shows that it is alive. */
export interface StoredLease {
  readonly name: string;
  /** As text with microseconds, because each renewal must change it. */
  readonly expiresAt: string;
  /** Time until the expiry, by the clock of the database; negative after the expiry. Milliseconds. */
  readonly endsInMs: number;
}

/** The lease of a process with shards. */
export interface ProcessLease extends StoredLease {
  readonly owner: string;
}

/**
 * Finds the leases of dead processes. A lease may also look expired because the clock of the database was set; the
 * watch excludes this case.
 */
export interface LeaseWatch {
  /**
   * Returns the leases of dead processes. Two conditions must be true. The lease has expired, or its expiry is further
   * in the future than any real one. And by the monotonic clock, it was not renewed for half the length of a lease. The
   * second condition does not apply to a lease that has just expired when this watch sees it for the first time.
   *
   * @param leases the leases of all other processes.
   * @param queriedMs when this process began to read the leases, by the monotonic clock.
   */
  dead<L extends StoredLease>(leases: readonly L[], queriedMs: number): L[];
}

/** Creates a watch. @param ttlMs length of the leases. */
export function createLeaseWatch(ttlMs: number): LeaseWatch {
  /** Each lease, with the time at which this watch first saw its current expiry, by the monotonic clock. */
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
