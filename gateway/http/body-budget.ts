import type { ServerResponse } from 'node:http';
import type { Meter } from '@opentelemetry/api';
import { type BudgetOf, tooManyBytes, unavailable } from '../errors.ts';

/** Maximum bytes of request bodies (or responses) in memory at one time. */
export interface BodyBudgetSizes {
  /** The budget of all requests of the process together. */
  readonly process: number;
  /** The budget of all callers of one shop together. */
  readonly shop: number;
  /** The budget of one caller; at least the largest body of an operation. */
  readonly caller: number;
}

const MIB = 1024 * 1024;

/**
 * Sizes for request bodies. While a body is parsed, validated and encoded for a service, it needs up to eight times its
 * size in memory. These sizes fit into the 768 MiB of the manifest. One caller can send the largest allowed body, two
 * callers together cannot block small bodies of others, and a shop gets no more memory by using more API keys.
 */
export const BODY_BUDGET: BodyBudgetSizes = {
  process: 64 * MIB,
  shop: 40 * MIB,
  caller: 32 * MIB,
};

/**
 * Sizes for the bodies of received webhooks. The gateway knows the sender only when it has the whole body, so anybody can
 * use up this budget. A caller is an IP address. Such a body needs up to four times its size in memory.
 */
const WEBHOOK_BUDGET: BodyBudgetSizes = { process: 16 * MIB, shop: 16 * MIB, caller: 4 * MIB };

/** Maximum size of a response. A larger response is never sent, even when nothing else is in memory. Bytes. */
export const RESPONSE_BYTES_MAX = 56 * MIB;

/** Responses count until the client has read them. A shop may have two of the largest responses. */
const RESPONSE_BUDGET: BodyBudgetSizes = {
  process: 96 * MIB,
  shop: RESPONSE_BYTES_MAX,
  caller: RESPONSE_BYTES_MAX,
};

/**
 * Small callers have at most this many bytes in memory. The last quarter of the budget is only for them, so that large
 * bodies do not block small ones. Bytes.
 */
export const SMALL_BYTES = MIB;
const LARGE_PART = 0.75;

/**
 * When the budget of the process is used up, the gateway may abort a large response whose client reads more slowly than
 * this.
 */
const SLOW_BYTES_PER_S = MIB;
const SLOW_AFTER_MS = 5_000;

/** The bytes that one request has reserved in the budget. */
export interface ReservedBytes {
  /**
   * Increases the reservation of this request to `total` bytes. Does nothing when it already has as many.
   *
   * @throws HttpError 429 beyond the budget of the caller or the shop, 503 beyond that of the process.
   */
  growTo(total: number): void;
  /**
   * Checks whether the budget has capacity for a reservation of `total` bytes. Reserves nothing. @throws HttpError as
   * `growTo`.
   */
  requireCapacity(total: number): void;
  /** Reduces the reservation of this request to `left` bytes. */
  shrinkTo(left: number): void;
  /** Releases all bytes of this request. May be called twice. */
  release(): void;
}

/** Who owns the bytes that one request reserves. */
export interface Owner {
  /** An API key, an installation, a user or an IP address. */
  readonly caller: string;
  /** Absent when the shop is not known. */
  readonly shop?: string;
  /** The bytes are released when this response closes. If it is absent, the owner must call `release`. */
  readonly res?: ServerResponse;
  /** Called when other requests need the memory and the client of this request reads slowly. */
  readonly abort?: () => void;
}

export interface BodyBudget {
  open(owner: Owner): ReservedBytes;
}

/** The state of one request. */
interface Reservation {
  readonly owner: Owner;
  readonly since: number;
  /** The largest number of bytes that the request has reserved so far. */
  largest: number;
  bytes: number;
  isReleased: boolean;
}

interface BodyBudgetOptions {
  /** A label of the metrics. */
  readonly of: BudgetOf;
  readonly onRejected?: (budget: 'process' | 'shop' | 'caller') => void;
  /** Milliseconds, monotonic. */
  readonly now?: () => number;
}

/** Creates a budget that counts the bytes in memory. */
export function createBodyBudget(
  sizes: BodyBudgetSizes,
  { of, onRejected, now = () => performance.now() }: BodyBudgetOptions,
): BodyBudget & { readonly reservedBytes: () => number } {
  const totals = createTotals();
  /** The reservations of requests that may be aborted when others need memory. */
  const abortable = new Set<Reservation>();

  const release = (reservation: Reservation): void => {
    totals.set(reservation, 0);
    abortable.delete(reservation);
    reservation.isReleased = true;
  };
  const reject = (budget: 'shop' | 'caller'): never => {
    onRejected?.(budget);
    throw tooManyBytes(of);
  };
  const requireCapacity = (reservation: Reservation, total: number): void => {
    if (reservation.isReleased || total <= reservation.bytes) return;
    const { caller, shop } = reservation.owner;
    const more = total - reservation.bytes;
    const ofCaller = totals.ofCaller(caller) + more;
    if (ofCaller > sizes.caller) reject('caller');
    if (shop !== undefined && totals.ofShop(shop) + more > sizes.shop) reject('shop');
    const max = ofCaller > SMALL_BYTES ? sizes.process * LARGE_PART : sizes.process;
    while (totals.all() + more > max) {
      const slowest = slowestOf(abortable, now());
      if (!slowest) {
        onRejected?.('process');
        throw unavailable(new Error(`the ${of} in memory have used up their budget`));
      }
      release(slowest);
      slowest.owner.abort?.();
    }
  };

  return {
    reservedBytes: totals.all,
    open(owner) {
      const reservation = { owner, since: now(), largest: 0, bytes: 0, isReleased: false };
      if (owner.abort) abortable.add(reservation);
      // After a disconnect, there is no further `close` event. So release the bytes now.
      if (owner.res?.closed) release(reservation);
      owner.res?.once('close', () => release(reservation));
      return {
        requireCapacity: (total) => requireCapacity(reservation, total),
        growTo(total) {
          requireCapacity(reservation, total);
          if (reservation.isReleased || total <= reservation.bytes) return;
          totals.set(reservation, total);
          reservation.largest = total;
        },
        shrinkTo(left) {
          if (!reservation.isReleased && left < reservation.bytes) totals.set(reservation, left);
        },
        release: () => release(reservation),
      };
    },
  };
}

/** The bytes of all requests together, and of each caller and shop. */
function createTotals() {
  const callers = createCounts();
  const shops = createCounts();
  let all = 0;
  return {
    all: () => all,
    ofCaller: callers.of,
    ofShop: shops.of,
    set(reservation: Reservation, bytes: number): void {
      const { caller, shop } = reservation.owner;
      const more = bytes - reservation.bytes;
      reservation.bytes = bytes;
      all += more;
      callers.add(caller, more);
      if (shop !== undefined) shops.add(shop, more);
    },
  };
}

/** Returns the large response that its client reads most slowly; undefined when no client reads too slowly. */
function slowestOf(reservations: ReadonlySet<Reservation>, now: number): Reservation | undefined {
  const rateOf = ({ largest, bytes, since }: Reservation): number =>
    ((largest - bytes) * 1_000) / (now - since);
  return [...reservations]
    .filter(({ largest, since }) => largest > SMALL_BYTES && now - since >= SLOW_AFTER_MS)
    .filter((reservation) => rateOf(reservation) < SLOW_BYTES_PER_S)
    .toSorted((a, b) => rateOf(a) - rateOf(b))[0];
}

/** Counts bytes by name. A name with 0 bytes is deleted. */
function createCounts() {
  const counts = new Map<string, number>();
  const of = (name: string): number => counts.get(name) ?? 0;
  return {
    of,
    add(name: string, more: number): void {
      const total = of(name) + more;
      if (total > 0) counts.set(name, total);
      else counts.delete(name);
    },
  };
}

/** The budgets of a process. Metrics show how much of each is used. */
export function measuredBudgets(
  meter: Meter,
  sizes: {
    readonly bodies?: Partial<BodyBudgetSizes> | undefined;
    readonly responses?: Partial<BodyBudgetSizes> | undefined;
  } = {},
): Readonly<Record<'bodies' | 'webhookBodies' | 'responses', BodyBudget>> {
  const rejections = meter.createCounter('http.server.bodies.refused', {
    description: 'Requests rejected because a budget of bytes in memory was used up',
  });
  const bytes = meter.createObservableGauge('http.server.body.bytes', {
    description: 'Bytes in memory: request bodies, and responses that clients have not read yet',
  });
  const measured = (of: BudgetOf, max: BodyBudgetSizes): BodyBudget => {
    const budget = createBodyBudget(max, {
      of,
      onRejected: (name) => rejections.add(1, { of, budget: name }),
    });
    bytes.addCallback((result) => result.observe(budget.reservedBytes(), { of }));
    return budget;
  };
  return {
    bodies: measured('bodies', sizesOf(BODY_BUDGET, sizes.bodies)),
    webhookBodies: measured('webhooks', WEBHOOK_BUDGET),
    responses: measured('answers', sizesOf(RESPONSE_BUDGET, sizes.responses)),
  };
}

/**
 * Returns the sizes of a budget. When the settings override the size of the process and not that of a shop, a shop
 * keeps its default share of the process. A shop has at least as much as one caller, unless the settings override its
 * size.
 */
function sizesOf(
  defaults: BodyBudgetSizes,
  overrides: Partial<BodyBudgetSizes> = {},
): BodyBudgetSizes {
  const { process, caller } = { ...defaults, ...overrides };
  const shop = Math.max((process * defaults.shop) / defaults.process, caller);
  return { process, caller, shop, ...overrides };
}
