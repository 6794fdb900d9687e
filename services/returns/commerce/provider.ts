import type { NumberText } from '../../contract/exact-json.ts';
import { parseId } from '../../platform/ids.ts';
import type { Both } from '../../platform/money.ts';

/** A JSON value of the caller's additional details. JSON.stringify writes it as it was sent. */
export type DetailScalar = string | number | NumberText | boolean | null;

/** Values for the additional details of every new order, by key. */
export type AdditionalDetails = Readonly<Record<string, DetailScalar>>;

/** The keys of the test effects of `commerce check` begin with this. Test effects move no money. */
export const CHECK_KEYS = 'rms:check:';

/**
 * What is requested of a commerce provider for a return. Processing requests the first four, in this order; the
 * cancellation of a return requests the last.
 */
export type EffectKind = 'exchange_order' | 'gift_card' | 'refund' | 'restock' | 'order_cancel';

/**
 * Whether effects of this kind have an amount. A restock moves goods, and a cancelled exchange order was paid with goods:
 * their amount is `0`, and is not compared.
 */
export function movesMoney(kind: EffectKind): boolean {
  return kind !== 'restock' && kind !== 'order_cancel';
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

/** A returned line of the order. */
export interface ReturnedLine {
  /** The provider's id of the order line. */
  readonly providerLineItemId: bigint;
  readonly sku: string;
  readonly quantity: number;
  /** What is refunded for it, shipping included. Decimal string in the request's currency. */
  readonly refund: string;
}

/** Whether effects of this kind are orders, which have a number as id, and a name. A gift card is one, too. */
export function isOrder(kind: EffectKind): boolean {
  return kind === 'exchange_order' || kind === 'gift_card';
}

/**
 * What is wrong with an effect that a provider has answered for this kind; undefined when nothing is.
 *
 * @param made.amount absent when the answer has none; so is its currency.
 */
export function problemOfKind(
  kind: EffectKind,
  made: {
    readonly id: string | number;
    readonly amount?: string | undefined;
    readonly currency?: string | undefined;
  },
): string | undefined {
  if (isOrder(kind) && parseId(String(made.id)) === undefined) {
    return `effect.id is "${made.id}"; it must be a whole number`;
  }
  const hasAmount = made.amount !== undefined && made.currency !== undefined;
  return hasAmount || !movesMoney(kind)
    ? undefined
    : 'effect.amount and effect.currency are required';
}

/** Returned goods that go back to stock. */
export interface RestockLine {
  /** This service's id of the line item, as in `restock.requested`. */
  readonly lineItemId: bigint;
  /** The provider's id of the order line. */
  readonly providerLineItemId: bigint;
  /** The provider's id of the variant; 0 when unknown. */
  readonly variantId: bigint;
  readonly sku: string;
  readonly quantity: number;
  /** The provider's location; 0 when unknown. */
  readonly locationId: bigint;
}

/** An exchange order at the provider. */
export interface MadeOrder {
  readonly id: bigint;
  /** May be empty. */
  readonly name: string;
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
  /** Decimal string in `currency`, above zero; `0` for kinds that move no money. */
  readonly amount: string;
  /** ISO 4217. */
  readonly currency: string;
  /** The goods of an exchange order; empty for the other kinds. */
  readonly items: readonly ExchangeItem[];
  /** The returned lines of a refund; empty for the other kinds. */
  readonly lines: readonly ReturnedLine[];
  /** The goods of a restock, at least one line; empty for the other kinds. */
  readonly stock: readonly RestockLine[];
  /** The exchange order to cancel; undefined for the other kinds. */
  readonly orderToCancel: MadeOrder | undefined;
  /** The caller's additional details for new orders; empty for the other kinds. */
  readonly details: AdditionalDetails;
}

/** An effect that exists at the provider. */
export interface Effect {
  /** The provider's id. Orders and gift cards have a number. */
  readonly id: string;
  /** The name of an order for people; empty for the other kinds. */
  readonly name: string;
  /** The payment gateway of a refund, and the provider's own name; empty for the other kinds. */
  readonly gateway: string;
  readonly provider: string;
  /** The amount of the effect. After a repeated key, the amount of the first request. `0` for kinds that move no money. */
  readonly amount: string;
  /** Empty for a listed effect that moves no money, if the provider keeps none. */
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

/** An order at the provider, as it was paid. */
export interface FoundOrder {
  readonly id: bigint;
  readonly name: string;
  /** ISO 4217: of the shop, and what the shopper paid in. */
  readonly currencies: Both<string>;
  readonly lines: readonly FoundLine[];
}

export interface FoundLine {
  readonly id: bigint;
  readonly title: string;
  readonly sku: string;
  /** Undefined when unknown. */
  readonly productId: bigint | undefined;
  readonly variantId: bigint | undefined;
  /** Ordered units, also those that were refunded later. */
  readonly quantity: number;
  /** The units that can still be refunded. */
  readonly returnable: number;
  /** The price of one unit after all discounts. Decimal strings. */
  readonly unitPrice: Both<string>;
}

/**
 * The port to the shop's commerce platform.
 *
 * A call stops when `signal` aborts. Calls reject with {@link CommerceFailure} or {@link LedgerUnavailable}. Any other
 * error counts as a transient failure, because the request may have taken effect.
 */
export interface CommerceProvider {
  /**
   * Requests an effect. It takes effect at most once per key: a call with a repeated key returns the first result, even
   * when the rest of the request is different.
   */
  create(request: EffectRequest, signal: AbortSignal): Promise<Effect>;
  /** The effect that an earlier request with this kind and key made; undefined when there is none. */
  find(request: EffectRequest, signal: AbortSignal): Promise<Effect | undefined>;
  /** A page of the effects that were made in a period; undefined when the provider cannot list them. */
  list(request: ListRequest, signal: AbortSignal): Promise<EffectPage | undefined>;
  /**
   * Finds an order by its name, such as `#1001`; undefined when there is none. Absent at a provider that looks no orders
   * up.
   */
  readonly lookUp?: (
    order: { readonly shopId: bigint; readonly name: string },
    signal: AbortSignal,
  ) => Promise<FoundOrder | undefined>;
  /**
   * The time after which an effect that {@link find} does not know was not made. Before it, an earlier request may still
   * be on its way. Milliseconds.
   */
  readonly settledAfterMs: number;
  /**
   * For kinds that {@link find} does not know: how long a repeated request surely has no second effect. Milliseconds.
   * Other kinds may be repeated at any time.
   */
  readonly repeatableForMs?: Partial<Record<EffectKind, number>>;
}

/** Why the returns of a shop without a provider are not processed. Follows "The return cannot be processed: ". */
export const NO_PROVIDER =
  'the shop has no commerce provider that moves money. Connect one with `commerce connect` or `commerce shopify install-link`, or make the shop a sandbox';

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
