import type { ServerResponse } from 'node:http';
import type { Meter } from '@opentelemetry/api';
import { tooManyBytes, unavailable } from '../errors.ts';

/** Bytes of request bodies that may be in memory at once. */
export interface BodyBudgetSizes {
  /** Of all requests of the process. */
  readonly process: number;
  /** Of one shop, however many callers it has. */
  readonly shop: number;
  /** Of one caller; at least the largest body of an operation. */
  readonly caller: number;
}

const MIB = 1024 * 1024;

/**
 * A body takes up to eight times its bytes while it is parsed, validated and encoded for a service. So
 * that it all fits into the 768 MiB of the manifest: see `docs/decisions.md`.
 */
export const BODY_BUDGET: BodyBudgetSizes = {
  process: 64 * MIB,
  shop: 40 * MIB,
  caller: 32 * MIB,
};

/** Answers are held until the client has read them: two of the largest for a shop. */
export const ANSWER_BUDGET: BodyBudgetSizes = {
  process: 96 * MIB,
  shop: 56 * MIB,
  caller: 56 * MIB,
};

/** A caller that holds no more than this may use the last quarter: large bodies cannot keep out small ones. */
export const SMALL_BYTES = MIB;
const LARGE_PART = 0.75;

/** A large answer that is read more slowly than this gives way to others, after so long. */
const SLOW_BYTES_PER_S = MIB;
const SLOW_AFTER_MS = 5_000;

/** The bytes of one request's body. */
export interface HeldBytes {
  /**
   * Counts `total` bytes for this request, in place of what it held before, if that is less.
   *
   * @throws HttpRefusal 429 beyond the budget of the caller or the shop, 503 beyond that of the process.
   */
  growTo(total: number): void;
  /** Whether there is room for `total` at present; counts nothing. @throws HttpRefusal as `growTo`. */
  requireRoom(total: number): void;
  /** So many are left to be read. */
  shrinkTo(left: number): void;
  /** The request has ended: nothing is counted any more. May be called twice. */
  release(): void;
}

/** Whose bytes they are. */
export interface Holder {
  /** A key, an installation, a user, an address. */
  readonly caller: string;
  /** Absent where the shop is not known. */
  readonly shop?: string;
  /** An answer whose end releases the bytes; without it the caller of this does. */
  readonly res?: ServerResponse;
  /** Ends the request: others need the room, and its client is slow to read. */
  readonly end?: () => void;
}

export interface BodyBudget {
  open(holder: Holder): HeldBytes;
}

/** What one request holds. */
interface Hold {
  readonly holder: Holder;
  readonly since: number;
  most: number;
  bytes: number;
  release(): void;
}

/** Counts the bytes that are in memory. */
export function createBodyBudget(
  sizes: BodyBudgetSizes,
  o: {
    readonly of: 'bodies' | 'answers';
    readonly refused?: (whose: 'process' | 'shop' | 'caller') => void;
    /** Milliseconds, monotonic. */
    readonly now?: () => number;
  },
): BodyBudget & { readonly heldBytes: () => number } {
  const { now = () => performance.now() } = o;
  const callers = createCounts();
  const shops = createCounts();
  /** Those that may be ended for others. */
  const endable = new Set<Hold>();
  let all = 0;

  const refuse = (whose: 'shop' | 'caller'): never => {
    o.refused?.(whose);
    throw tooManyBytes(o.of);
  };
  const requireRoom = ({ caller, shop }: Holder, more: number): void => {
    const own = callers.of(caller) + more;
    if (own > sizes.caller) refuse('caller');
    if (shop !== undefined && shops.of(shop) + more > sizes.shop) refuse('shop');
    const most = own > SMALL_BYTES ? sizes.process * LARGE_PART : sizes.process;
    while (all + more > most) {
      const slowest = slowestOf(endable, now());
      if (!slowest) {
        o.refused?.('process');
        throw unavailable(new Error(`the ${o.of} in memory have used up their budget`));
      }
      slowest.release();
      slowest.holder.end?.();
    }
  };
  const set = (hold: Hold, bytes: number): void => {
    const more = bytes - hold.bytes;
    hold.bytes = bytes;
    all += more;
    callers.add(hold.holder.caller, more);
    if (hold.holder.shop !== undefined) shops.add(hold.holder.shop, more);
  };

  return {
    heldBytes: () => all,
    open(holder) {
      let isOver = false;
      const release = (): void => {
        set(hold, 0);
        endable.delete(hold);
        isOver = true;
      };
      const hold: Hold = { holder, since: now(), most: 0, bytes: 0, release };
      if (holder.end) endable.add(hold);
      // Nobody says so again when the client has left already.
      if (holder.res?.closed) release();
      holder.res?.once('close', release);
      return {
        requireRoom(total) {
          if (!isOver && total > hold.bytes) requireRoom(holder, total - hold.bytes);
        },
        growTo(total) {
          if (isOver || total <= hold.bytes) return;
          requireRoom(holder, total - hold.bytes);
          set(hold, total);
          hold.most = total;
        },
        shrinkTo(left) {
          if (!isOver && left < hold.bytes) set(hold, left);
        },
        release,
      };
    },
  };
}

/** Of the large ones that are read too slowly, the slowest. */
function slowestOf(holds: ReadonlySet<Hold>, now: number): Hold | undefined {
  const rateOf = ({ most, bytes, since }: Hold): number => ((most - bytes) * 1_000) / (now - since);
  return [...holds]
    .filter((hold) => hold.most > SMALL_BYTES && now - hold.since >= SLOW_AFTER_MS)
    .filter((hold) => rateOf(hold) < SLOW_BYTES_PER_S)
    .toSorted((a, b) => rateOf(a) - rateOf(b))[0];
}

/** Sums by name; a name without any is forgotten. */
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

/** Budgets of bodies and of answers that `/metrics` shows. */
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
    description: 'Bytes of request bodies, and of answers that wait to be read, in memory',
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

/** A shop has the same part of the process as by default, and at least what one of its callers has. */
function sizesOf(usual: BodyBudgetSizes, given: Partial<BodyBudgetSizes> = {}): BodyBudgetSizes {
  const { process, caller } = { ...usual, ...given };
  const shop = Math.max((process * usual.shop) / usual.process, caller);
  return { process, caller, shop, ...given };
}
