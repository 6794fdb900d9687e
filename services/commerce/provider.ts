import { EffectKindSchema } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { NumberText } from '../contract/validate/exact-json.ts';
import type { Queryable } from '../platform/postgres/postgres.ts';
import { enumText } from '../platform/values/enum-text.ts';
import { parseId } from '../platform/values/ids.ts';
import type { LineValue, Units } from '../platform/values/line-value.ts';
import type { Both } from '../platform/values/money.ts';

/**
 * A value that the caller gave for the additional details of an order. A number that would lose digits is a
 * `NumberText`, so that JSON.stringify writes it exactly as the caller sent it.
 */
export type DetailScalar = string | number | NumberText | boolean | null;

/** Values that each new order gets as additional details, by key. */
export type AdditionalDetails = Readonly<Record<string, DetailScalar>>;

/** The keys of the test effects of `commerce check` begin with this. Test effects move no money. */
export const CHECK_KEYS = 'rms:check:';

/**
 * A kind of effect that is requested of a commerce provider for a return. Processing requests the first four, in this
 * order. The cancellation of a return requests the last one.
 */
export type EffectKind = 'exchange_order' | 'gift_card' | 'refund' | 'restock' | 'order_cancel';

/** Converts a kind of effect to the enum of the RPCs, and back. */
export const effectKindText = enumText(EffectKindSchema);

/**
 * Whether effects of this kind have an amount. A restock moves goods, and a cancelled exchange order was paid with
 * goods. So their amount is `0`, and nothing compares it.
 */
export function movesMoney(kind: EffectKind): boolean {
  return kind !== 'restock' && kind !== 'order_cancel';
}

export interface ExchangeItem {
  readonly productId: bigint;
  readonly variantId: bigint;
  readonly sku: string;
  readonly title: string;
  /** Decimal texts in the currency of the request. */
  readonly price: string;
  readonly discount: string;
  readonly tax: string;
}

/** A line of the original order whose goods were returned. */
export interface ReturnedLine {
  /** The provider's id of the order line. */
  readonly providerLineItemId: bigint;
  readonly sku: string;
  readonly quantity: number;
  /** The amount that is refunded for the line, including shipping. Decimal text in the currency of the request. */
  readonly refund: string;
  /** The shipping in {@link refund}, with its tax. Decimal text in the currency of the request. */
  readonly shipping: string;
}

/** Whether effects of this kind have a number as id, and a name. Exchange orders and gift cards have both. */
export function isOrder(kind: EffectKind): boolean {
  return kind === 'exchange_order' || kind === 'gift_card';
}

/**
 * Returns what is wrong with an effect of this kind in an answer of a provider; undefined when it is right.
 *
 * @param made.amount absent when the answer has none. Then its currency is absent, too.
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

/** Returned goods that go back into stock. */
export interface RestockLine {
  /** Id of the line item in this service, as in `restock.requested`. */
  readonly lineItemId: bigint;
  /** The provider's id of the order line. */
  readonly providerLineItemId: bigint;
  /** The provider's id of the variant; 0 when unknown. */
  readonly variantId: bigint;
  readonly sku: string;
  readonly quantity: number;
  /** The provider's id of the location; 0 when unknown. */
  readonly locationId: bigint;
}

/** An exchange order that exists at the provider. */
export interface MadeOrder {
  readonly id: bigint;
  /** Name of the order; may be empty. */
  readonly name: string;
}

/** How an exchange order is paid. Decimal texts in the currency of the request. */
export interface Funding {
  /** What the returned goods pay of its amount. */
  readonly paidByReturn: string;
  /** What the shopper must still pay. The provider must ask the shopper for it, or reject the request. */
  readonly due: string;
  /** The payment with which the shopper has paid the rest; empty without one. */
  readonly paymentReference: string;
}

/** Whether the shopper must still pay a part of an exchange order. */
export function isDue(funding: Funding | undefined): funding is Funding {
  return funding !== undefined && /[1-9]/.test(funding.due);
}

/** A request for one effect. */
export interface EffectRequest {
  readonly kind: EffectKind;
  readonly shopId: bigint;
  readonly returnId: bigint;
  /** The provider's id and name of the order with which the goods were bought. */
  readonly providerOrderId: bigint;
  readonly orderName: string;
  /** Identifies the effect. It is always the same for one return and kind. */
  readonly key: string;
  /** Decimal text in `currency`, above zero. `0` for kinds that move no money. */
  readonly amount: string;
  /** ISO 4217. */
  readonly currency: string;
  /** The goods of an exchange order; empty for other kinds. */
  readonly items: readonly ExchangeItem[];
  /** The returned lines of a refund; empty for other kinds. */
  readonly lines: readonly ReturnedLine[];
  /** The goods of a restock, at least one line; empty for other kinds. */
  readonly stock: readonly RestockLine[];
  /** Of an exchange order and of its cancellation; undefined for other kinds, and for a search of the comparison. */
  readonly funding?: Funding | undefined;
  /** The exchange order that is cancelled; undefined for other kinds. */
  readonly orderToCancel: MadeOrder | undefined;
  /** The caller's additional details for a new order; empty for other kinds. */
  readonly details: AdditionalDetails;
  /**
   * When the request was about to be recorded, by the clock of this process; absent in a search. Its signature has this
   * time. So a request that its process sends late, because it was suspended, is rejected as too old. Unix milliseconds.
   */
  readonly recordedAtMs?: number;
}

/** An effect that the provider has made. */
export interface Effect {
  /** The provider's id. It is a number for orders and gift cards. */
  readonly id: string;
  /** The name of an order, for people; empty for other kinds. */
  readonly name: string;
  /** The payment gateway of a refund, and the name of the provider; empty for other kinds. */
  readonly gateway: string;
  readonly provider: string;
  /**
   * The amount of the effect. When its key was used again, this is the amount of the first request. `0` for kinds that
   * move no money.
   */
  readonly amount: string;
  /** Empty for a listed effect that moves no money, when the provider stores no currency for it. */
  readonly currency: string;
  /** What the provider asked the shopper for; undefined when it asked for nothing. Only for exchange orders. */
  readonly due?: string | undefined;
  /** Whether the effect exists, and another request must complete it. */
  readonly isUnfinished?: boolean;
  /** When the provider made the effect; undefined when the provider does not say it. */
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
  /** End of the period. Exclusive. */
  readonly to: Date;
  /** The cursor of the previous page; empty for the first page. */
  readonly cursor: string;
}

export interface EffectPage {
  readonly effects: readonly ListedEffect[];
  /** The cursor of the next page; empty on the last page. */
  readonly cursor: string;
}

/** Selects an order of a shop, by its name, such as `#1001`, or by the provider's id. */
export type OrderSelector = { readonly shopId: bigint } & (
  | { readonly name: string }
  | { readonly id: bigint }
);

/** An order at the provider, with the amounts that were paid, in minor units. */
export interface FoundOrder extends OrderFacts {
  readonly id: bigint;
  readonly name: string;
  /** The currencies of the shop and of the shopper's payment (ISO 4217). */
  readonly currencies: Both<string>;
  /**
   * What was paid for shipping, with its tax, and what of it the merchant has not refunded. `refunds` are those of
   * which `left` is without the shipping; absent when `left` is without no refund of this service. Undefined when
   * unknown.
   */
  readonly shipping?:
    | {
        readonly paid: Both<bigint>;
        readonly left: Both<bigint>;
        readonly refunds?: readonly (RefundThere & { readonly value: Both<bigint> })[];
      }
    | undefined;
  /** What refunds paid beyond lines and shipping, such as for goodwill. Undefined when unknown. */
  readonly otherRefunds?: readonly (RefundThere & { readonly value: Both<bigint> })[] | undefined;
  /** What the shopper has not paid of the order. Undefined when unknown. */
  readonly unpaid?: Both<bigint> | undefined;
  readonly lines: readonly FoundLine[];
}

/** What policies need of an order. What the provider does not know is absent. */
export interface OrderFacts {
  /** The e-mail address of the shopper. */
  readonly email?: string | undefined;
  readonly postalCode?: string | undefined;
  /** Where the order was shipped: ISO 3166 alpha-2 in upper case. */
  readonly shippingCountry?: string | undefined;
  readonly orderedAt?: Date | undefined;
  /** When the last goods left the merchant, and when they arrived. */
  readonly fulfilledAt?: Date | undefined;
  readonly deliveredAt?: Date | undefined;
  readonly cancelledAt?: Date | undefined;
}

/** What an order line is. Only products can be returned. */
export type LineKind = 'product' | 'gift_card' | 'tip' | 'service';

/** A refund at the provider. */
export interface RefundThere {
  readonly id: string;
  /** The key of this service in the refund; empty for one that this service did not request. */
  readonly key: string;
}

/** A variant at its price now, for an exchange. */
export interface FoundVariant {
  readonly variantId: bigint;
  /** Absent for a variant of the same product. */
  readonly productId?: bigint | undefined;
  readonly sku: string;
  readonly title: string;
  /** The price of one unit without tax, and its tax, in minor units of the shop's currency. */
  readonly price: bigint;
  readonly tax: bigint;
}

export interface FoundLine {
  readonly id: bigint;
  readonly title: string;
  readonly sku: string;
  /** Id of the product; undefined when unknown. */
  readonly productId: bigint | undefined;
  readonly variantId: bigint | undefined;
  /** The title of the variant and a link to an image; absent when unknown. */
  readonly variantTitle?: string | undefined;
  readonly image?: string | undefined;
  /** The tags of the product; absent when unknown. */
  readonly tags?: readonly string[] | undefined;
  /** Absent when unknown. */
  readonly kind?: LineKind | undefined;
  /** Number of units that were shipped; absent when unknown. */
  readonly shipped?: number | undefined;
  /** Number of ordered units. Units that were refunded later count, too. */
  readonly quantity: number;
  /** Number of units that may come back. Unshipped and refunded units, gift cards and tips may not. */
  readonly returnable: number;
  /** What was paid for all ordered units. */
  readonly paid: Both<LineValue>;
  /** What the goods may be exchanged for, apart from their own variant; absent when unknown. */
  readonly variants?: readonly FoundVariant[] | undefined;
  /**
   * The units and the total that the provider has not refunded. Refunds that this service requested count as refunded.
   * Without totals, refunded units had their share of {@link paid}.
   */
  readonly left: { readonly units: number; readonly totals?: Both<bigint> | undefined };
  /**
   * The refunds in {@link left}, with their totals at the provider. Undefined when the provider's totals of refunds of
   * this service are the requested ones.
   */
  readonly refunds?: readonly (Units<Both<bigint>> & RefundThere)[];
}

/** The current state of an order at the provider. */
export interface ProviderOrder {
  readonly shopId: bigint;
  readonly providerOrderId: bigint;
  /** Name of the order, at most 191 characters; may be empty. */
  readonly name: string;
  /** The time of this state, by the provider. */
  readonly updatedAt: Date;
  /** When the order was cancelled; undefined when it is not. */
  readonly cancelledAt: Date | undefined;
  /** All lines of the order. There are at most COMMERCE_LINES_MAX. */
  readonly lines: readonly {
    readonly providerLineItemId: bigint;
    /** Number of ordered units. Units that were refunded later count, too. */
    readonly quantity: number;
  }[];
}

/** A refund that the provider reports. */
export interface ProviderRefund {
  readonly shopId: bigint;
  /**
   * Id of the refund. It has the same form as the id of a refund that processing requested (`Effect.id`), so that both
   * can be compared.
   */
  readonly providerRefundId: string;
  readonly providerOrderId: bigint;
  /** The key of this service's request that made the refund; empty when the provider reports none. */
  readonly key: string;
  readonly refundedAt: Date;
  /** Decimal text, in {@link ProviderRefund.currency}. */
  readonly amount: string;
  readonly currency: string;
  /** The refunded lines, at most COMMERCE_LINES_MAX. Empty, for example, for a refund of shipping. */
  readonly lines: readonly {
    readonly providerLineItemId: bigint;
    /** Number of refunded units. It is 0 for a refund of a part of the price, which does not count as returned. */
    readonly quantity: number;
    readonly amount: string;
  }[];
}

/** Records what a provider reports about its orders, in the transaction of the caller. The returns service has it. */
export interface RecordsReports {
  readonly recordOrder: (tx: Queryable, order: ProviderOrder) => Promise<boolean>;
  readonly recordRefund: (tx: Queryable, refund: ProviderRefund) => Promise<boolean>;
}

/**
 * The interface between this service and a shop's commerce platform.
 *
 * A call stops when `signal` aborts. Calls reject with {@link CommerceFailure} or {@link LedgerUnavailable}. Any other
 * error counts as `passing`, because the request may have had its effect.
 */
export interface CommerceProvider {
  /**
   * Requests an effect. There is at most one effect for each key. A call with a key that was used before returns the
   * first result, even when the rest of the request is different.
   */
  create(request: EffectRequest, signal: AbortSignal): Promise<Effect>;
  /** Returns the effect that an earlier request with this kind and key made; undefined when there is none. */
  find(request: EffectRequest, signal: AbortSignal): Promise<Effect | undefined>;
  /** Returns a page of the effects that were made in a period; undefined when the provider cannot list them. */
  list(request: ListRequest, signal: AbortSignal): Promise<EffectPage | undefined>;
  /**
   * Finds an order; undefined when there is none. The function is absent when the provider does not support look-ups.
   *
   * @throws NoLookUp when only the answer of the provider shows that it does not.
   */
  readonly lookUp?: (order: OrderSelector, signal: AbortSignal) => Promise<FoundOrder | undefined>;
  /**
   * Time after which an effect that {@link CommerceProvider.find} does not know was not made. Before it, the request
   * may still be on its way. Milliseconds.
   */
  readonly settledAfterMs: number;
  /**
   * For kinds that {@link CommerceProvider.find} cannot find: how long after the first request a repeated one certainly
   * has no second effect. Requests of other kinds may be repeated at any time. Milliseconds.
   */
  readonly repeatableForMs?: Partial<Record<EffectKind, number>>;
}

/** Why returns of a shop without a provider are not processed, as the text after "The return cannot be processed: ". */
export const NO_PROVIDER =
  'the shop has no commerce provider that moves money. Connect one with `commerce connect` or `commerce shopify install-link`, or make the shop a sandbox';

/**
 * The database of this service is unavailable, and with it the ledger of the embedded provider. The provider itself did
 * not fail, so this does not count as its failure.
 */
export class LedgerUnavailable extends Error {
  override readonly name = 'LedgerUnavailable';
}

/**
 * `passing`: transient, so the same request may succeed later. `final`: permanent, and this request had no effect. An
 * earlier request for the same effect may have had one.
 */
export type FailureKind = 'passing' | 'final';

/** The provider rejected the request, or was unavailable. */
export class CommerceFailure extends Error {
  override readonly name = 'CommerceFailure';
  readonly kind: FailureKind;
  /** The pause that the provider requested. Milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** Whether the request certainly did not leave this process, so that it had no effect. */
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

/** The provider does not support look-ups of orders. */
export class NoLookUp extends CommerceFailure {
  constructor(message: string) {
    super('final', message);
  }
}

/** Whether the request certainly did not leave this process. */
export function isUnsent(error: unknown): boolean {
  return error instanceof CommerceFailure && error.isUnsent;
}

/** Whether the failure is permanent, so that this run does not repeat the request. */
export function isFinal(error: unknown): boolean {
  return error instanceof CommerceFailure && error.kind === 'final';
}
