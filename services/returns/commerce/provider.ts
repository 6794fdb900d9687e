import type { NumberText } from '../../contract/exact-json.ts';

/** A value of the caller's additional details, as JSON has it: JSON.stringify writes it as it was sent. */
export type DetailScalar = string | number | NumberText | boolean | null;
/** Values that every new order carries, key by key. */
export type AdditionalDetails = Readonly<Record<string, DetailScalar>>;

/** What every request to a commerce provider says. */
export interface CommerceRequest {
  readonly shopId: bigint;
  readonly returnId: bigint;
  /** The order the goods were bought with, by the provider's id. */
  readonly providerOrderId: bigint;
  /** Names the effect for ever: the same return and kind always send the same key. */
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
  /** What it was placed with: the first request's amount when the key was used before. */
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
 * Each call takes effect at most once per idempotency key: a repeated key answers the first effect,
 * whatever else the request says. Calls end when `signal` aborts; whether they took effect is then
 * unknown, and the same key finds out. They reject with {@link CommerceFailure}, or with
 * {@link BooksUnavailable}; any other error counts as passing, because the effect may have happened.
 */
export interface CommerceProvider {
  createExchangeOrder(request: ExchangeOrderRequest, signal: AbortSignal): Promise<PlacedOrder>;
  issueGiftCard(request: GiftCardOrderRequest, signal: AbortSignal): Promise<PlacedOrder>;
  createRefund(request: CommerceRequest, signal: AbortSignal): Promise<MadeRefund>;
}

/**
 * Our own database does not answer, in whose books the provider keeps what it did: no failure of a
 * provider, so it counts as no attempt.
 */
export class BooksUnavailable extends Error {
  override readonly name = 'BooksUnavailable';
}

/** `passing`: the same request may succeed later. `final`: it never will, and nothing happened. */
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
