import { type Both, minorOf } from '../../../../services/platform/values/money.ts';

/** The payment gateway of all orders. */
export const GATEWAY = 'shopify_payments';

/** The currency of the shop. */
export const SHOP_CURRENCY = 'GBP';

/** An order of the shop. It was paid with one payment in `currency`. */
export interface ShopOrder {
  readonly id: bigint;
  readonly name: string;
  readonly currency: string;
  readonly paid: string;
  readonly customerId: bigint | undefined;
  /** What the shopper has not paid, by default nothing. It is negative when the shop owes the shopper. */
  readonly outstanding?: Both<string>;
  /** Whether prices include tax, and duties. */
  readonly taxesIncluded?: boolean;
  readonly dutiesIncluded?: boolean;
  /** The price of shipping after discounts, and its tax. */
  readonly shipping?: { readonly price: Both<string>; readonly tax: Both<string> };
  readonly email?: string;
  /** Whether the app may not read e-mail and address. */
  readonly isProtected?: boolean;
  readonly shippedTo?: { readonly zip: string; readonly countryCodeV2: string };
  readonly createdAt?: Date;
  readonly cancelledAt?: Date;
  readonly fulfilments?: readonly {
    readonly createdAt: Date;
    readonly deliveredAt?: Date;
    readonly status?: 'CANCELLED';
  }[];
  readonly lines: readonly ShopLine[];
}

export interface ShopLine {
  readonly id: bigint;
  readonly sku: string;
  readonly quantity: number;
  /** The price of one unit, in the currency of the order and of the shop. */
  readonly price: string;
  readonly shopPrice: string;
  /** Discounts of the line, and its parts of the discounts of the order. */
  readonly discounts?: readonly Both<string>[];
  /** By default, what was paid for the order beyond its prices is the tax of its first line. */
  readonly taxes?: readonly Both<string>[];
  readonly duties?: readonly Both<string>[];
  /** Units that were not shipped. By default all were. */
  readonly unfulfilled?: number;
  /** What it is, by default goods. */
  readonly kind?: 'gift card' | 'tip';
  readonly variantTitle?: string;
  readonly image?: string;
  readonly product?: { readonly id: bigint; readonly tags: readonly string[] };
  /** How its stock is counted; by default it is. */
  readonly stock?: 'not counted' | 'deleted';
}

export interface Made {
  readonly id: bigint;
  readonly note: string;
  readonly amount: string;
  readonly currency: string;
  readonly createdAt: Date;
  /** When the search shows it. Milliseconds of `performance.now()`. */
  readonly shownAt: number;
}

/** An order that a draft has become. */
export interface DraftsOrder extends Made {
  /** Whether the shopper must still pay its amount. */
  readonly isPending: boolean;
  /** Whether its cancellation refunded the shopper. */
  isRefunded: boolean;
  /** Undefined until it is cancelled. */
  cancelledAt: Date | undefined;
  isShipped: boolean;
}

export interface MadeRefund extends Made {
  readonly orderId: bigint;
  readonly gateway: string;
  readonly lines: readonly { readonly id: bigint; readonly quantity: number }[];
  /** Refunded shipping, with its tax in the second amount. */
  readonly shipping?: { readonly price: Both<string>; readonly tax: Both<string> };
  /** Refunded duties, by the order line. */
  readonly duties?: readonly { readonly line: bigint; readonly amount: Both<string> }[];
  status: 'SUCCESS' | 'PENDING' | 'FAILURE';
}

export interface MadeGiftCard extends Made {
  readonly code: string;
  readonly customerId: bigint | undefined;
}

export interface MadeDraft extends Made {
  readonly tags: readonly string[];
  /** The discount that its amount is less. */
  readonly discount: string | undefined;
  /** When each invoice was sent. */
  readonly invoices: Date[];
  /** The order that it has become. */
  order: DraftsOrder | undefined;
}

/** An adjustment of stock. The goods of an order line have its id as inventory item. */
export interface Adjustment {
  readonly id: bigint;
  readonly reference: string;
  readonly changes: readonly {
    readonly item: bigint;
    readonly location: bigint;
    readonly delta: number;
  }[];
}

/** What exists in a shop: the judge of what an adapter has made. */
export interface Shop {
  readonly orders: Map<bigint, ShopOrder>;
  readonly refunds: MadeRefund[];
  readonly giftCards: MadeGiftCard[];
  readonly drafts: MadeDraft[];
  readonly adjustments: Adjustment[];
  /** The locations that stock everything. The first is the primary one. */
  readonly locations: bigint[];
  /** Results of mutations by idempotency key, with the content of the first request. */
  readonly keys: Map<string, { readonly content: string; readonly result: unknown }>;
  isDevelopment: boolean;
  /** Whether completed drafts count as paid, whatever the request says. */
  marksAsPaid: boolean;
  nextId: bigint;
}

export function newShopifyShop(): Shop {
  return {
    orders: new Map(),
    refunds: [],
    giftCards: [],
    drafts: [],
    adjustments: [],
    locations: [70_000n, 70_001n],
    keys: new Map(),
    isDevelopment: false,
    marksAsPaid: false,
    nextId: 5_000_000_001n,
  };
}

/** What is left of the payment of an order, in minor units. */
export function leftOf(shop: Shop, { id, paid, currency }: ShopOrder): bigint {
  return shop.refunds
    .filter(({ orderId, status }) => orderId === id && status !== 'FAILURE')
    .reduce((left, { amount }) => left - minorOf(amount, currency), minorOf(paid, currency));
}

/** The units of a line that were not refunded. */
export function refundableOf(shop: Shop, { id, quantity }: ShopLine): number {
  return shop.refunds
    .flatMap(({ lines }) => lines)
    .filter((line) => line.id === id)
    .reduce((left, line) => left - line.quantity, quantity);
}

/** Returns a function that gives what was made its id and times. @param lagMs how late the search shows it. */
export function makerOf(shop: Shop, lagMs: number) {
  return (about: Pick<Made, 'note' | 'amount' | 'currency'>): Made => ({
    ...about,
    id: shop.nextId++,
    createdAt: new Date(),
    shownAt: performance.now() + lagMs,
  });
}
