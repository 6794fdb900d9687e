/**
 * What is known of an endpoint: it answers quickly; nothing yet; one of its attempts has been open for
 * more than a second; its last attempt failed.
 */
export type HealthClass = 'trusted' | 'new' | 'slow' | 'failing';

/** How many more attempts an endpoint may start. */
export interface EndpointCapacity {
  readonly free: number;
  readonly healthClass: HealthClass;
}

/** How much a process may still start: attempts, or bytes of their bodies. */
export interface Capacity {
  /** For all endpoints. `reserved` comes on top. */
  readonly all: number;
  /** The part of `all` that endpoints other than trusted ones may use. */
  readonly untrusted: number;
  /** The part of `untrusted` that slow and failing endpoints may use. */
  readonly bad: number;
  /** Left for these endpoints even while every other place is taken by endpoints that hang. */
  readonly reserved: { readonly new: number; readonly failing: number };
}

/** What a process has in flight: attempts, or bytes of their bodies. */
export interface Load {
  /** The configured limit. */
  readonly most: number;
  /** Everything, including attempts whose result is not recorded yet. */
  readonly all: number;
  /** Open attempts by the health class of their endpoint; open for more than a second counts as slow. */
  readonly new: number;
  readonly slow: number;
  readonly failing: number;
}

/**
 * How much may be started, so that endpoints that hang never fill the process:
 *
 * - Endpoints that are not trusted use at most half of the limit, slow and failing ones at most a quarter.
 * - Trusted endpoints that begin to hang become slow. Of all that is slow only half of the limit is counted,
 *   so the others go on. The price: up to twice the limit may be open.
 * - A thirty-second of the limit stays reserved for new endpoints and a sixty-fourth for failing ones. An
 *   attempt that becomes slow gives its reserved place to the next. Their number is bounded as well, so
 *   that half of the limit stays for trusted endpoints.
 */
export function freeCapacity({ most, all, new: untried, slow, failing }: Load): Capacity {
  const part = (share: number): number => Math.max(1, Math.floor(most / share));
  const half = part(2);
  const untrusted = untried + slow + failing;
  const counted = all - Math.max(0, untrusted - half);
  const free = Math.max(0, Math.min(most - counted, 2 * most - all));
  const within = (amount: number, limit: number): number => Math.max(0, Math.min(amount, limit));
  const freeUntrusted = within(half - untrusted, free);
  return {
    all: free,
    untrusted: freeUntrusted,
    bad: within(part(4) - slow - failing, freeUntrusted),
    reserved: {
      new: within(part(32) - untried, most + half - untrusted),
      failing: within(part(64) - failing, most - untrusted),
    },
  };
}

/** How much all endpoints of a health class together may start. */
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

/** Capacity while it is being given away. */
export interface Remaining {
  all: number;
  untrusted: number;
  bad: number;
  readonly reserved: { new: number; failing: number };
}

/** Takes one place; false when there is none for the health class. */
export function takePlace(left: Remaining, healthClass: HealthClass): boolean {
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
