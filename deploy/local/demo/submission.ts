import type { MessageInitShape } from '@bufbuild/protobuf';
import type { SubmitReturnRequestSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  LineOutcome,
  Outcome,
  ReturnMethod,
  ReturnType,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LOCAL_ACTOR } from '../clients.ts';

export type Submission = MessageInitShape<typeof SubmitReturnRequestSchema>;

/** The data of a demo shop that its returns need. */
export interface DemoShop {
  readonly id: number;
  readonly currency: string;
  readonly destinationId: number;
}

/** The differences between submissions. */
export interface SubmissionOptions {
  readonly key: string;
  /** Unique in the shop; provider ids and the order's name are derived from it. */
  readonly serial: number;
  readonly outcome?: 'refund' | 'exchange' | 'credit';
  readonly type?: ReturnType;
  readonly lines?: number;
  readonly presentment?: 'USD' | 'JPY';
  readonly flagReasons?: readonly string[];
  readonly submittedAt?: Date;
  /** Serial of the order, when several returns share one. */
  readonly orderSerial?: number;
}

/** The first id of the embedded commerce provider. */
const PROVIDER_IDS = 1_000_000_000_000;

/** Presentment units per unit of the shop's currency; fixed, so that the demo data is always the same. */
const RATES = { same: 1, USD: 1.25, JPY: 190 } as const;

/** The amounts of one demo line, in minor units of a two-decimal currency. */
const LINE = { price: 4000, discount: 400, tax: 600, refundShipping: 300, refundShippingTax: 50 };
const HANDLING_FEE = 300;

type Amounts = (minor: number) => { shop: string; presentment: string };

function amountsIn(presentment: 'USD' | 'JPY' | undefined): Amounts {
  const rate = RATES[presentment ?? 'same'];
  const decimals = presentment === 'JPY' ? 0 : 2;
  return (minor) => ({
    shop: (minor / 100).toFixed(2),
    presentment: ((minor * rate) / 100).toFixed(decimals),
  });
}

const STYLES = ['Canvas tote', 'Wool scarf', 'Linen shirt', 'Rain jacket', 'Running shoe'];

function line(serial: number, at: number, outcome: LineOutcome, amount: Amounts) {
  const style = STYLES[(serial + at) % STYLES.length] ?? 'Goods';
  const goods = LINE.price - LINE.discount;
  return {
    providerLineItemId: BigInt(PROVIDER_IDS + serial * 1000 + at),
    providerLineItemExternalId: `line-${serial}-${at}`,
    productId: BigInt(5000 + (at % 20)),
    variantId: BigInt(50_000 + (at % 20)),
    sku: `SKU-${5000 + (at % 20)}`,
    lineItemTitle: style,
    variantTitle: 'Medium',
    title: `${style} - Medium`,
    image: 'https://images.example.com/goods.png',
    quantity: 1,
    price: amount(LINE.price),
    discount: amount(LINE.discount),
    tax: amount(LINE.tax),
    refundItem: amount(goods),
    refundTax: amount(LINE.tax),
    refundShipping: amount(LINE.refundShipping),
    refundShippingTax: amount(LINE.refundShippingTax),
    barcode: '4006381333931',
    reason: 'Too small',
    parentReason: 'Size',
    outcome,
    hsCode: '610910',
    countryOfOrigin: 'PT',
    weightG: 400,
  };
}

const OUTCOMES = {
  refund: { whole: Outcome.REFUND, line: LineOutcome.REFUND },
  exchange: { whole: Outcome.EXCHANGE, line: LineOutcome.EXCHANGE },
  credit: { whole: Outcome.CREDIT, line: LineOutcome.CREDIT },
} as const;

/** A return as a shopper's portal submits it. The amounts are consistent with each other and with the outcome. */
export function submission(shop: DemoShop, o: SubmissionOptions): Submission {
  const amount = amountsIn(o.presentment);
  const count = o.lines ?? 2;
  const outcome = o.outcome ?? 'refund';
  const perLine = LINE.price - LINE.discount + LINE.tax + LINE.refundShipping;
  const value = amount(count * perLine - HANDLING_FEE);
  return {
    shopId: BigInt(shop.id),
    actor: LOCAL_ACTOR,
    idempotencyKey: o.key,
    order: orderOf(o.orderSerial ?? o.serial),
    currency: shop.currency,
    presentmentCurrency: o.presentment ?? shop.currency,
    customer: customerOf(o.serial),
    type: o.type ?? ReturnType.STANDARD,
    outcome: OUTCOMES[outcome].whole,
    returnMethod: ReturnMethod.MAIL,
    destinationId: BigInt(shop.destinationId),
    statusPageUrl: `https://returns.example.com/status/${o.serial}`,
    packageReference: `PKG-${o.serial}`,
    exchanges: outcome === 'exchange' ? [{ ...EXCHANGED, price: value }] : [],
    lines: Array.from({ length: count }, (_, at) =>
      line(o.serial, at, OUTCOMES[outcome].line, amount),
    ),
    amounts: {
      handlingFee: amount(HANDLING_FEE),
      ...(outcome !== 'refund' && { returnCredit: value }),
    },
    flagReasons: [...(o.flagReasons ?? [])],
    ...(o.submittedAt && { submittedAt: timestampOf(o.submittedAt) }),
  };
}

/** The items that the shopper gets in an exchange. */
const EXCHANGED = {
  productId: 6000n,
  variantId: 60_000n,
  sku: 'SKU-6000',
  title: 'Canvas tote - Large',
};

function orderOf(serial: number) {
  const number = BigInt(serial % 1_000_000);
  return {
    providerOrderId: BigInt(PROVIDER_IDS + serial),
    name: `#${serial}`,
    number,
    providerOrderNumber: number,
  };
}

function customerOf(serial: number) {
  return {
    email: `shopper-${serial}@example.com`,
    firstName: 'Sample',
    lastName: `Shopper ${serial}`,
    address: { address1: '1 Sample Street', city: 'London', zip: 'N1 1AA', countryCode: 'GB' },
  };
}

export function timestampOf(date: Date) {
  return { seconds: BigInt(Math.floor(date.getTime() / 1000)), nanos: 0 };
}
