import type { NumberText } from '../../contract/exact-json.ts';

/** A JSON value of the caller's additional details. JSON.stringify writes it as it was sent. */
export type DetailScalar = string | number | NumberText | boolean | null;
/** Values that every new order carries, key by key. */
export type AdditionalDetails = Readonly<Record<string, DetailScalar>>;

/** The fields of every request to a commerce provider. */
export interface CommerceRequest {
  readonly shopId: bigint;
  readonly returnId: bigint;
  /** The order the goods were bought with, by the provider's id. */
  readonly providerOrderId: bigint;
  /** Identifies the effect. The same return and kind always have the same key. */
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
  /** The amount of the order: that of the first request when the key was used before. */
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
 * Each call takes effect at most once per idempotency key: a repeated key answers the first effect, even when the
 * rest of the request differs. A call ends when `signal` aborts; whether it took effect is then unknown, and a call
 * with the same key finds out. Calls reject with {@link CommerceFailure} or {@link LedgerUnavailable}; any other
 * error counts as passing, because the effect may have happened.
 */
export interface CommerceProvider {
  createExchangeOrder(request: ExchangeOrderRequest, signal: AbortSignal): Promise<PlacedOrder>;
  issueGiftCard(request: GiftCardOrderRequest, signal: AbortSignal): Promise<PlacedOrder>;
  createRefund(request: CommerceRequest, signal: AbortSignal): Promise<MadeRefund>;
}

/**
 * Our own database, in which the embedded provider has its ledger, does not answer. This is no failure of the provider,
 * so it does not count as an attempt.
 */
export class LedgerUnavailable extends Error {
  override readonly name = 'LedgerUnavailable';
}

/** `passing`: the same request may succeed later. `final`: it never succeeds, and it had no effect. */
export type FailureKind = 'passing' | 'final';

/** The provider refused or could not be reached. */
export class CommerceFailure extends Error {
  override readonly name = 'CommerceFailure';
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.kind = kind;
  }
}

/** Whether repeating the request is pointless. */
export function isFinal(error: unknown): boolean {
  return error instanceof CommerceFailure && error.kind === 'final';
}
