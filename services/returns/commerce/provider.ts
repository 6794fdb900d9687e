import type { NumberText } from '../../contract/exact-json.ts';

/** A JSON value of the caller's additional details. JSON.stringify writes it as it was sent. */
export type DetailScalar = string | number | NumberText | boolean | null;
/** Values for the additional details of every new order, by key. */
export type AdditionalDetails = Readonly<Record<string, DetailScalar>>;

/** The fields of every request to a commerce provider. */
export interface CommerceRequest {
  readonly shopId: bigint;
  readonly returnId: bigint;
  /** The provider's id of the order that the goods were bought with. */
  readonly providerOrderId: bigint;
  /** Identifies the request. The same return and kind always have the same key. */
  readonly idempotencyKey: string;
  /** Decimal string in `currency`, above zero. */
  readonly amount: string;
  /** ISO 4217. */
  readonly currency: string;
}

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

export interface ExchangeOrderRequest extends CommerceRequest {
  readonly items: readonly ExchangeItem[];
  readonly details: AdditionalDetails;
}

export interface GiftCardOrderRequest extends CommerceRequest {
  readonly details: AdditionalDetails;
}

/** An order that exists at the provider. */
export interface PlacedOrder {
  readonly id: bigint;
  readonly name: string;
  /** The amount of the order. After a repeated key, the amount of the first request. */
  readonly amount: string;
  readonly currency: string;
}

/** A refund that exists at the provider. */
export interface MadeRefund {
  readonly id: string;
  readonly gateway: string;
  readonly provider: string;
  readonly amount: string;
  readonly currency: string;
  readonly createdAt: Date;
}

/**
 * The port to the shop's commerce platform.
 *
 * A call takes effect at most once per idempotency key: a call with a repeated key returns the first result, also when
 * the rest of the request is different. A call stops when `signal` aborts. Its outcome is then unknown, and a call with
 * the same key returns it. Calls reject with {@link CommerceFailure} or {@link LedgerUnavailable}. Any other error
 * counts as a transient failure, because the call may have taken effect.
 */
export interface CommerceProvider {
  createExchangeOrder(request: ExchangeOrderRequest, signal: AbortSignal): Promise<PlacedOrder>;
  issueGiftCard(request: GiftCardOrderRequest, signal: AbortSignal): Promise<PlacedOrder>;
  createRefund(request: CommerceRequest, signal: AbortSignal): Promise<MadeRefund>;
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

  constructor(kind: FailureKind, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.kind = kind;
  }
}

/** Whether the failure is permanent, so that the request must not be repeated. */
export function isFinal(error: unknown): boolean {
  return error instanceof CommerceFailure && error.kind === 'final';
}
