import type { NumberText } from '../../contract/exact-json.ts';

/** A JSON value of the caller's additional details. JSON.stringify writes it as it was sent. */
export type DetailScalar = string | number | NumberText | boolean | null;
/** Values for the additional details of every new order, by key. */
export type AdditionalDetails = Readonly<Record<string, DetailScalar>>;

/** What processing requests of a commerce provider for a return, in this order. */
export type EffectKind = 'exchange_order' | 'gift_card' | 'refund';

export interface ExchangeItem {
  readonly productId: bigint;
  readonly variantId: bigint;
  readonly sku: string;
  readonly title: string;
  /** Decimal strings in the request's currency. */
  readonly price: string;
  readonly discount: string;
  readonly tax: string;
}

/** A returned line of the order. */
export interface ReturnedLine {
  /** The provider's id of the order line. */
  readonly providerLineItemId: bigint;
  readonly sku: string;
  readonly quantity: number;
  /** What is refunded for it, shipping included. Decimal string in the request's currency. */
  readonly refund: string;
}

/** A request for one effect. */
export interface EffectRequest {
  readonly kind: EffectKind;
  readonly shopId: bigint;
  readonly returnId: bigint;
  /** The provider's id and name of the order that the goods were bought with. */
  readonly providerOrderId: bigint;
  readonly orderName: string;
  /** Identifies the effect. The same return and kind always have the same key. */
  readonly key: string;
  /** Decimal string in `currency`, above zero. */
  readonly amount: string;
  /** ISO 4217. */
  readonly currency: string;
  /** The goods of an exchange order; empty for the other kinds. */
  readonly items: readonly ExchangeItem[];
  /** The returned lines, by which a provider refunds and restocks; empty for the other kinds. */
  readonly lines: readonly ReturnedLine[];
  /** The caller's additional details for new orders; empty for refunds. */
  readonly details: AdditionalDetails;
}

/** An effect that exists at the provider. */
export interface Effect {
  /** The provider's id. Orders and gift cards have a number. */
  readonly id: string;
  /** The name of an order for people; empty for refunds. */
  readonly name: string;
  /** The payment gateway of a refund, and the provider's own name; empty for orders. */
  readonly gateway: string;
  readonly provider: string;
  /** The amount of the effect. After a repeated key, the amount of the first request. */
  readonly amount: string;
  readonly currency: string;
  /** When the provider made it; undefined when the provider does not say. */
  readonly createdAt: Date | undefined;
}

/** An effect with its key. */
export interface ListedEffect extends Effect {
  readonly kind: EffectKind;
  readonly key: string;
}

/** Selects the effects of a shop that were made in a period, and a page of them. */
export interface ListRequest {
  readonly shopId: bigint;
  readonly from: Date;
  /** Exclusive. */
  readonly to: Date;
  /** The cursor of the page before; empty for the first page. */
  readonly cursor: string;
}

export interface EffectPage {
  readonly effects: readonly ListedEffect[];
  /** Empty on the last page. */
  readonly cursor: string;
}

/**
 * The port to the shop's commerce platform.
 *
 * A call stops when `signal` aborts. Calls reject with {@link CommerceFailure} or {@link LedgerUnavailable}. Any other
 * error counts as a transient failure, because the request may have taken effect.
 */
export interface CommerceProvider {
  /**
   * Requests an effect. It takes effect at most once per key: a call with a repeated key returns the first result, also
   * when the rest of the request is different.
   */
  create(request: EffectRequest, signal: AbortSignal): Promise<Effect>;
  /** The effect that an earlier request with this kind and key made; undefined when there is none. */
  find(request: EffectRequest, signal: AbortSignal): Promise<Effect | undefined>;
  /** A page of the effects that were made in a period; undefined when the provider cannot list them. */
  list(request: ListRequest, signal: AbortSignal): Promise<EffectPage | undefined>;
  /**
   * The time after which an effect that {@link find} does not know was not made. Before it, an earlier request may still
   * be on its way. Milliseconds.
   */
  readonly settledAfterMs: number;
}

/**
 * The database of this service, with the ledger of the embedded provider, is unavailable. The provider did not fail, so
 * this does not count as a failure.
 */
export class LedgerUnavailable extends Error {
  override readonly name = 'LedgerUnavailable';
}

/** `passing`: transient, the same request may succeed later. `final`: permanent, and the request had no effect. */
export type FailureKind = 'passing' | 'final';

/** The provider rejected the request, or was unavailable. */
export class CommerceFailure extends Error {
  override readonly name = 'CommerceFailure';
  readonly kind: FailureKind;
  /** The pause that the provider requested. Milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** Whether the request surely did not leave this process, so that it had no effect. */
  readonly isUnsent: boolean;

  constructor(
    kind: FailureKind,
    message: string,
    options: {
      readonly cause?: unknown;
      readonly retryAfterMs?: number | undefined;
      readonly isUnsent?: boolean;
    } = {},
  ) {
    super(message, options);
    this.kind = kind;
    this.retryAfterMs = options.retryAfterMs;
    this.isUnsent = options.isUnsent ?? false;
  }
}

/** Whether the request surely did not leave this process. */
export function isUnsent(error: unknown): boolean {
  return error instanceof CommerceFailure && error.isUnsent;
}

/** Whether the failure is permanent, so that the request must not be repeated. */
export function isFinal(error: unknown): boolean {
  return error instanceof CommerceFailure && error.kind === 'final';
}
