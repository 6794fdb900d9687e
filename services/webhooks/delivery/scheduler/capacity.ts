/**
 * Health class of an endpoint.
 *
 * - `trusted`: it responds quickly.
 * - `new`: it had too few attempts to be trusted.
 * - `slow`: one of its attempts has been open for more than a second.
 * - `failing`: its last attempt failed.
 */
export type HealthClass = 'trusted' | 'new' | 'slow' | 'failing';

/** How many attempts an endpoint may start now. */
export interface EndpointCapacity {
  readonly free: number;
  readonly healthClass: HealthClass;
}

/** How many attempts a process may start now, or how many bytes of bodies. */
export interface Capacity {
  /** Capacity for all endpoints, without `reserved`. */
  readonly all: number;
  /** The part of `all` that endpoints may use that are not trusted. */
  readonly untrusted: number;
  /** The part of `untrusted` that slow and failing endpoints may use. */
  readonly bad: number;
  /** Capacity for new and for failing endpoints. They have it even while hanging endpoints use all other capacity. */
  readonly reserved: { readonly new: number; readonly failing: number };
}

/** The work in flight of a process: the number of attempts, or the bytes of their bodies. */
export interface Load {
  /** The limit from the settings. */
  readonly limit: number;
  /** All attempts. This includes attempts that have ended and whose result is not recorded. */
  readonly all: number;
  /**
   * Open attempts, by the health class of their endpoint. An attempt that has been open for more than a second counts
   * as slow.
   */
  readonly new: number;
  readonly slow: number;
  readonly failing: number;
}

/**
 * Returns the free capacity. Its limits prevent hanging endpoints from using all the capacity of a process:
 *
 * - Endpoints that are not trusted use at most half of the limit. Slow and failing endpoints use at most a quarter.
 * - Trusted endpoints that begin to hang become slow. All slow attempts together count for at most half of the limit,
 *   so that other endpoints continue. For this, up to twice the limit may be open.
 * - 1/32 of the limit is reserved for new endpoints, and 1/64 for failing endpoints. An attempt that becomes slow
 *   releases its reserved capacity. The number of such attempts is also limited, so that half of the limit stays for
 *   trusted endpoints.
 */
export function freeCapacity({ limit, all, new: untried, slow, failing }: Load): Capacity {
  const part = (share: number): number => Math.max(1, Math.floor(limit / share));
  const half = part(2);
  const untrusted = untried + slow + failing;
  const counted = all - Math.max(0, untrusted - half);
  const free = Math.max(0, Math.min(limit - counted, 2 * limit - all));
  const within = (amount: number, max: number): number => Math.max(0, Math.min(amount, max));
  const freeUntrusted = within(half - untrusted, free);
  return {
    all: free,
    untrusted: freeUntrusted,
    bad: within(part(4) - slow - failing, freeUntrusted),
    reserved: {
      new: within(part(32) - untried, limit + half - untrusted),
      failing: within(part(64) - failing, limit - untrusted),
    },
  };
}

/** Returns the free capacity for all endpoints of one health class together. */
export function freeFor(capacity: Capacity, healthClass: HealthClass): number {
  const { all, untrusted, bad, reserved } = capacity;
  switch (healthClass) {
    case 'trusted':
      return all;
    case 'new':
      return Math.max(untrusted, reserved.new);
    case 'slow':
      return bad;
    case 'failing':
      return Math.max(bad, reserved.failing);
  }
}

/** The capacity that is left while the fair share grants attempts. */
export interface Remaining {
  all: number;
  untrusted: number;
  bad: number;
  readonly reserved: { new: number; failing: number };
}

/** Takes the capacity of one attempt. Returns false when the health class has none left. */
export function takeAttempt(left: Remaining, healthClass: HealthClass): boolean {
  const isTrusted = healthClass === 'trusted';
  const isBad = healthClass === 'slow' || healthClass === 'failing';
  if (left.all > 0 && (isTrusted || left.untrusted > 0) && (!isBad || left.bad > 0)) {
    left.all -= 1;
    if (!isTrusted) left.untrusted -= 1;
    if (isBad) left.bad -= 1;
    return true;
  }
  if (healthClass !== 'new' && healthClass !== 'failing') return false;
  if (left.reserved[healthClass] <= 0) return false;
  left.reserved[healthClass] -= 1;
  return true;
}
