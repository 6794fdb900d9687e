import type { ServerResponse } from 'node:http';
import type { Meter } from '@opentelemetry/api';
import { tooManyBytes, unavailable } from '../errors.ts';

/** Maximum bytes of request bodies (or responses) in memory at one time. */
export interface BodyBudgetSizes {
  /** For all requests of the process. */
  readonly process: number;
  /** For all callers of one shop together. */
  readonly shop: number;
  /** For one caller; at least the largest body of an operation. */
  readonly caller: number;
}

const MIB = 1024 * 1024;

/**
 * While a body is parsed, validated and encoded for a service, it needs up to eight times its size in memory. These
 * sizes fit into the 768 MiB of the manifest: see `docs/decisions.md`.
 */
export const BODY_BUDGET: BodyBudgetSizes = {
  process: 64 * MIB,
  shop: 40 * MIB,
  caller: 32 * MIB,
};

/** Responses count until the client has read them. A shop may have two of the largest ones. */
export const ANSWER_BUDGET: BodyBudgetSizes = {
  process: 96 * MIB,
  shop: 56 * MIB,
  caller: 56 * MIB,
};

/** The last quarter of the budget is for callers with at most this, so large bodies cannot block small ones. Bytes. */
export const SMALL_BYTES = MIB;
const LARGE_PART = 0.75;

/** When memory is short, a large response that the client reads more slowly than this may be aborted. */
const SLOW_BYTES_PER_S = MIB;
const SLOW_AFTER_MS = 5_000;

/** The counted bytes of one request. */
export interface HeldBytes {
  /**
   * Raises the count of this request to `total` bytes, if it is lower.
   *
   * @throws HttpRefusal 429 beyond the budget of the caller or the shop, 503 beyond that of the process.
   */
  growTo(total: number): void;
  /** Checks whether the budget has capacity for `total` now. Counts nothing. @throws HttpRefusal as `growTo`. */
  requireCapacity(total: number): void;
  /** Lowers the count to `left` bytes. */
  shrinkTo(left: number): void;
  /** Ends the counting for this request. May be called twice. */
  release(): void;
}

/** The owner of the counted bytes. */
export interface Holder {
  /** A key, an installation, a user or an IP address. */
  readonly caller: string;
  /** Absent when the shop is not known. */
  readonly shop?: string;
  /** The bytes are released when this response closes. Without it, `release` must be called. */
  readonly res?: ServerResponse;
  /** Aborts the request, when other requests need the memory and its client reads slowly. */
  readonly end?: () => void;
}

export interface BodyBudget {
  open(holder: Holder): HeldBytes;
}

/** The state of one request. */
interface Hold {
  readonly holder: Holder;
  readonly since: number;
  most: number;
  bytes: number;
  isOver: boolean;
}

interface BodyBudgetOptions {
  readonly of: 'bodies' | 'answers';
  readonly refused?: (whose: 'process' | 'shop' | 'caller') => void;
  /** Milliseconds, monotonic. */
  readonly now?: () => number;
}

/** Creates a budget that counts the bytes in memory. */
export function createBodyBudget(
  sizes: BodyBudgetSizes,
  { of, refused, now = () => performance.now() }: BodyBudgetOptions,
): BodyBudget & { readonly heldBytes: () => number } {
  const sums = createSums();
  /** Requests that may be aborted in favour of others. */
  const endable = new Set<Hold>();

  const release = (hold: Hold): void => {
    sums.set(hold, 0);
    endable.delete(hold);
    hold.isOver = true;
  };
  const refuse = (whose: 'shop' | 'caller'): never => {
    refused?.(whose);
    throw tooManyBytes(of);
  };
  const requireCapacity = (hold: Hold, total: number): void => {
    if (hold.isOver || total <= hold.bytes) return;
    const more = total - hold.bytes;
    const own = sums.ofCaller(hold) + more;
    if (own > sizes.caller) refuse('caller');
    if (hold.holder.shop !== undefined && sums.ofShop(hold) + more > sizes.shop) refuse('shop');
    const most = own > SMALL_BYTES ? sizes.process * LARGE_PART : sizes.process;
    while (sums.all() + more > most) {
      const slowest = slowestOf(endable, now());
      if (!slowest) {
        refused?.('process');
        throw unavailable(new Error(`the ${of} in memory have used up their budget`));
      }
      release(slowest);
      slowest.holder.end?.();
    }
  };

  return {
    heldBytes: sums.all,
    open(holder) {
      const hold: Hold = { holder, since: now(), most: 0, bytes: 0, isOver: false };
      if (holder.end) endable.add(hold);
      // If the client has disconnected already, there is no further `close` event.
      if (holder.res?.closed) release(hold);
      holder.res?.once('close', () => release(hold));
      return {
        requireCapacity: (total) => requireCapacity(hold, total),
        growTo(total) {
          requireCapacity(hold, total);
          if (hold.isOver || total <= hold.bytes) return;
          sums.set(hold, total);
          hold.most = total;
        },
        shrinkTo(left) {
          if (!hold.isOver && left < hold.bytes) sums.set(hold, left);
        },
        release: () => release(hold),
      };
    },
  };
}

/** The bytes of all requests together, and of each caller and shop. */
function createSums() {
  const callers = createCounts();
  const shops = createCounts();
  let all = 0;
  return {
    all: () => all,
    ofCaller: ({ holder: { caller } }: Hold) => callers.of(caller),
    ofShop: ({ holder: { shop = '' } }: Hold) => shops.of(shop),
    set(hold: Hold, bytes: number): void {
      const more = bytes - hold.bytes;
      hold.bytes = bytes;
      all += more;
      callers.add(hold.holder.caller, more);
      if (hold.holder.shop !== undefined) shops.add(hold.holder.shop, more);
    },
  };
}

/** The slowest of the large responses that are read too slowly. */
function slowestOf(holds: ReadonlySet<Hold>, now: number): Hold | undefined {
  const rateOf = ({ most, bytes, since }: Hold): number => ((most - bytes) * 1_000) / (now - since);
  return [...holds]
    .filter((hold) => hold.most > SMALL_BYTES && now - hold.since >= SLOW_AFTER_MS)
    .filter((hold) => rateOf(hold) < SLOW_BYTES_PER_S)
    .toSorted((a, b) => rateOf(a) - rateOf(b))[0];
}

/** Sums by name. Names with a sum of 0 are deleted. */
function createCounts() {
  const counts = new Map<string, number>();
  const of = (name: string): number => counts.get(name) ?? 0;
  return {
    of,
    add(name: string, more: number): void {
      const sum = of(name) + more;
      if (sum > 0) counts.set(name, sum);
      else counts.delete(name);
    },
  };
}

/** Creates the budgets for bodies and for responses, with metrics. */
export function measuredBudgets(
  meter: Meter,
  sizes: {
    readonly bodies?: Partial<BodyBudgetSizes> | undefined;
    readonly answers?: Partial<BodyBudgetSizes> | undefined;
  } = {},
): { readonly bodies: BodyBudget; readonly answers: BodyBudget } {
  const refusals = meter.createCounter('http.server.bodies.refused', {
    description: 'Requests refused because a budget of bytes in memory was used up',
  });
  const held = meter.createObservableGauge('http.server.body.bytes', {
    description: 'Bytes in memory: request bodies, and responses that clients have not read yet',
  });
  const measured = (of: 'bodies' | 'answers', most: BodyBudgetSizes): BodyBudget => {
    const budget = createBodyBudget(most, {
      of,
      refused: (whose) => refusals.add(1, { of, budget: whose }),
    });
    held.addCallback((result) => result.observe(budget.heldBytes(), { of }));
    return budget;
  };
  return {
    bodies: measured('bodies', sizesOf(BODY_BUDGET, sizes.bodies)),
    answers: measured('answers', sizesOf(ANSWER_BUDGET, sizes.answers)),
  };
}

/** A shop gets the same share of the process as by default, and at least as much as one caller. */
function sizesOf(usual: BodyBudgetSizes, given: Partial<BodyBudgetSizes> = {}): BodyBudgetSizes {
  const { process, caller } = { ...usual, ...given };
  const shop = Math.max((process * usual.shop) / usual.process, caller);
  return { process, caller, shop, ...given };
}
