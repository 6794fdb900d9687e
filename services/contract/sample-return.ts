import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type Address, AddressSchema } from '../../proto/gen/rms/returns/v1/address_pb.ts';
import {
  CustomerUpload_Kind,
  DispositionOutcome,
  type Label,
  LabelSchema,
  LabelStatus,
  LineOutcome,
  Outcome,
  type Return,
  ReturnMethod,
  ReturnSchema,
  ReturnState,
  ReturnType,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';

/**
 * The documented sample return for test events and OpenAPI documents. It has one line item of 40.00 minus 4.00 plus
 * 6.00. It is paid and refunded in the shop's currency, minus a fee of 2.00.
 */
export const SAMPLE_TIME = new Date('2026-07-01T12:00:00Z');
export const SAMPLE_RETURN_ID = 100_000_001n;
export const SAMPLE_LINE_ITEM_ID = 200_000_001n;

const at = timestampFromDate(SAMPLE_TIME);
const URL_BASE = 'https://example.com';

const LINE_AMOUNTS = {
  price: '40.00',
  discount: '4.00',
  tax: '6.00',
  refund: '42.00',
  refundItem: '36.00',
  refundTax: '6.00',
  refundShipping: '0.00',
  refundShippingTax: '0.00',
  refundExcludingShipping: '42.00',
  refundExcludingShippingTax: '42.00',
} as const;

const TOTALS = {
  total: '40.00',
  returnProductTotal: '40.00',
  returnDiscountTotal: '4.00',
  returnTaxTotal: '6.00',
  returnTotal: '42.00',
  refundShippingTotal: '0.00',
  refundShippingTaxTotal: '0.00',
  returnShippingTotal: '0.00',
  returnShippingTaxTotal: '0.00',
  creditShippingTotal: '0.00',
  returnCreditTotal: '0.00',
  handlingFee: '2.00',
  exchangeProductTotal: '0.00',
  exchangeDiscountTotal: '0.00',
  exchangeTaxTotal: '0.00',
  exchangeTotal: '0.00',
  exchangeCreditTotal: '0.00',
  upsell: '0.00',
  giftCard: '0.00',
  refund: '40.00',
} as const;

export function sampleAddress(name: string): Address {
  return create(AddressSchema, {
    name,
    address1: '1 Example Street',
    city: 'London',
    zip: 'N1 1AA',
    country: 'United Kingdom',
    countryCode: 'GB',
  });
}

export function sampleLabel(): Label {
  return create(LabelSchema, {
    id: 300_000_001n,
    returnId: SAMPLE_RETURN_ID,
    carrier: 'Example Post',
    trackingNumber: 'EX000000001GB',
    url: `${URL_BASE}/labels/300000001.pdf`,
    rate: '3.50',
    rateMinor: 350n,
    status: LabelStatus.NEW,
    createdAt: at,
    updatedAt: at,
    lineItemIds: [SAMPLE_LINE_ITEM_ID],
  });
}

export function sampleReturn(shopId: bigint, state: ReturnState = ReturnState.OPEN): Return {
  const closed = state === ReturnState.CLOSED;
  return create(ReturnSchema, {
    id: SAMPLE_RETURN_ID,
    shopId,
    revision: 3n,
    createdAt: at,
    updatedAt: at,
    ...(closed ? { archivedAt: at } : {}),
    order: {
      id: 400_000_001n,
      providerOrderId: 1_000_000_000_001n,
      name: '#1001',
      number: 1001n,
      providerOrderNumber: 1001n,
    },
    customer: {
      email: 'shopper@example.com',
      firstName: 'Sam',
      lastName: 'Sample',
      address: sampleAddress('Sam Sample'),
    },
    state,
    type: ReturnType.STANDARD,
    outcome: Outcome.REFUND,
    returnMethod: ReturnMethod.MAIL,
    currency: 'GBP',
    presentmentCurrency: 'GBP',
    totals: TOTALS,
    presentmentTotals: TOTALS,
    lineItems: [sampleLine()],
    refunds: closed ? [sampleRefund()] : [],
    labels: [sampleLabel()],
    destinationId: 500_000_001n,
    statusPageUrl: `${URL_BASE}/returns/100000001`,
  });
}

function sampleLine() {
  return {
    lineItemId: SAMPLE_LINE_ITEM_ID,
    providerLineItemId: 2_000_000_000_001n,
    providerLineItemExternalId: '2000000000001',
    productId: 3_000_000_000_001n,
    variantId: 4_000_000_000_001n,
    sku: 'SAMPLE-M-BLUE',
    lineItemTitle: 'Sample shirt',
    variantTitle: 'M / Blue',
    title: 'Sample shirt - M / Blue',
    image: `${URL_BASE}/images/sample-shirt.jpg`,
    quantity: 1,
    amounts: LINE_AMOUNTS,
    presentmentAmounts: LINE_AMOUNTS,
    returnedAt: at,
    barcode: '5000000000001',
    reason: 'Too small',
    parentReason: 'Size',
    outcome: LineOutcome.REFUND,
    condition: {
      description: 'As new',
      subject: 'item',
      title: 'Grade A',
      grade: 'a',
      returnProcessor: 'warehouse@example.com',
      inspectedAt: at,
      images: [`${URL_BASE}/images/inspection.jpg`],
    },
    disposition: {
      outcome: DispositionOutcome.BACK_TO_STOCK,
      returnProcessor: 'warehouse@example.com',
      note: 'Unworn, tags attached',
      inspectedAt: at,
    },
    uploads: [
      {
        id: 600_000_001n,
        kind: CustomerUpload_Kind.IMAGE,
        source: 'customer',
        url: `${URL_BASE}/uploads/600000001.jpg`,
        createdAt: at,
      },
    ],
  };
}

function sampleRefund() {
  return {
    id: 700_000_001n,
    gateway: 'example_payments',
    provider: 'embedded',
    providerRefundId: '5000000000001',
    money: { value: '40.00', currency: 'GBP' },
    providerCreatedAt: at,
    createdAt: at,
    updatedAt: at,
  };
}
