/** The lease of another process, as the database has it. */
export interface ProcessLease {
  readonly name: string;
  readonly owner: string;
  /** As text with microseconds: each renewal changes it. */
  readonly expiresAt: string;
  /** From the database's now; negative once it has expired. Milliseconds. */
  readonly endsInMs: number;
}

/** Tells dead processes from those whose leases seem to be over because the database's clock was set. */
export interface LeaseWatch {
  /**
   * Which of these are leases of dead processes: over, or ending later than any lease may, and not renewed
   * for half a lease by the monotonic clock. One that was never seen before and ended just now counts at once.
   *
   * @param leases of all other processes.
   * @param askedMs when the database was asked for them, by the monotonic clock.
   */
  dead(leases: readonly ProcessLease[], askedMs: number): ProcessLease[];
}

/** @param ttlMs length of the leases. */
export function createLeaseWatch(ttlMs: number): LeaseWatch {
  /** Each lease with the moment at which its present end was first seen, by the monotonic clock. */
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
