import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  ConditionSchema,
  DispositionOutcome,
  DispositionSchema,
  LabelSchema,
  LabelStatus,
  LineOutcome,
  Outcome,
  type Return,
  ReturnMethod,
  ReturnSchema,
  ReturnState,
  ReturnType,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  AT,
  DESTINATION_ID,
  LABEL_ID,
  LINE_ITEM_IDS,
  ORDER_ID,
  PROVIDER_IDS,
  RETURN_ID,
  SERIAL,
  SHOP_ID,
  WAREHOUSE_PARTNER,
} from './story.ts';

/** The amounts of each of the two line items. `deploy/local/demo/submission.ts` has the same. */
const LINE_AMOUNTS = {
  price: '40.00',
  discount: '4.00',
  tax: '6.00',
  refund: '45.00',
  refundItem: '36.00',
  refundTax: '6.00',
  refundShipping: '3.00',
  refundShippingTax: '0.50',
  refundExcludingShipping: '42.00',
  refundExcludingShippingTax: '44.50',
} as const;

const TOTALS = {
  total: '87.00',
  returnProductTotal: '80.00',
  returnDiscountTotal: '8.00',
  returnTaxTotal: '12.00',
  returnTotal: '84.00',
  refundShippingTotal: '6.00',
  refundShippingTaxTotal: '1.00',
  returnShippingTotal: '6.00',
  returnShippingTaxTotal: '1.00',
  handlingFee: '3.00',
  refund: '87.00',
} as const;

/** The findings of the inspection of the two line items. */
export const FINDINGS = [
  {
    style: 'Canvas tote',
    category: 'grade_a',
    title: 'Grade A',
    grade: 'a',
    description: 'Unworn, tags attached',
    outcome: DispositionOutcome.BACK_TO_STOCK,
    image: 'https://images.example.com/inspections/1.jpg',
  },
  {
    style: 'Wool scarf',
    category: 'junk',
    title: 'Junk',
    categoryName: 'junk',
    description: 'Torn and stained',
    outcome: DispositionOutcome.RECYCLE,
    image: 'https://images.example.com/inspections/2.jpg',
  },
] as const;

const inspection = {
  returnProcessor: WAREHOUSE_PARTNER,
  inspectedAt: timestampFromDate(AT.inspected),
};

/** The label of the return, with the status that the carrier reported last. */
export function exampleLabel(status: LabelStatus, updatedAt: Date) {
  const tracking = `TRACK-${RETURN_ID}-1`;
  return create(LabelSchema, {
    id: LABEL_ID,
    returnId: RETURN_ID,
    carrier: 'Sample Post',
    trackingNumber: tracking,
    url: `https://labels.example.com/${tracking}.pdf`,
    rate: '4.90',
    rateMinor: 490n,
    status,
    createdAt: timestampFromDate(AT.labelled),
    updatedAt: timestampFromDate(updatedAt),
    lineItemIds: [...LINE_ITEM_IDS],
  });
}

/** The return after its goods arrived and were assessed, before it is processed. */
export function exampleReturn(): Return {
  return create(ReturnSchema, {
    id: RETURN_ID,
    shopId: SHOP_ID,
    revision: 5n,
    createdAt: timestampFromDate(AT.submitted),
    updatedAt: timestampFromDate(AT.assessed),
    order: {
      id: ORDER_ID,
      providerOrderId: PROVIDER_IDS + BigInt(SERIAL),
      name: `#${SERIAL}`,
      number: BigInt(SERIAL),
      providerOrderNumber: BigInt(SERIAL),
    },
    customer: {
      email: `shopper-${SERIAL}@example.com`,
      firstName: 'Sample',
      lastName: `Shopper ${SERIAL}`,
    },
    state: ReturnState.OPEN,
    type: ReturnType.STANDARD,
    outcome: Outcome.REFUND,
    returnMethod: ReturnMethod.MAIL,
    currency: 'GBP',
    presentmentCurrency: 'GBP',
    totals: TOTALS,
    presentmentTotals: TOTALS,
    lineItems: LINE_ITEM_IDS.map((_, at) => lineItem(at)),
    labels: [exampleLabel(LabelStatus.DELIVERED, AT.delivered)],
    destinationId: DESTINATION_ID,
    statusPageUrl: `https://returns.example.com/status/${SERIAL}`,
    packageReference: `PKG-${SERIAL}`,
  });
}

/** @param at the index of the line, from 0. */
function lineItem(at: number) {
  const finding = FINDINGS[at];
  return {
    lineItemId: LINE_ITEM_IDS[at] ?? 0n,
    providerLineItemId: PROVIDER_IDS + BigInt(SERIAL * 1000 + at),
    providerLineItemExternalId: `line-${SERIAL}-${at}`,
    productId: BigInt(5000 + at),
    variantId: BigInt(50_000 + at),
    sku: `SKU-${5000 + at}`,
    lineItemTitle: finding?.style ?? '',
    variantTitle: 'Medium',
    title: `${finding?.style} - Medium`,
    image: 'https://images.example.com/goods.png',
    quantity: 1,
    amounts: LINE_AMOUNTS,
    presentmentAmounts: LINE_AMOUNTS,
    returnedAt: timestampFromDate(AT.delivered),
    barcode: '4006381333931',
    reason: 'Too small',
    parentReason: 'Size',
    outcome: LineOutcome.REFUND,
    hsCode: '610910',
    countryOfOrigin: 'PT',
    weightG: 400,
    condition: exampleCondition(at),
    disposition: exampleDisposition(at),
  };
}

/** The condition of a line item after the inspection. @param at the index of the line, from 0. */
export function exampleCondition(at: number) {
  const { style, category, outcome, image, ...found } = FINDINGS[at] ?? FINDINGS[0];
  return create(ConditionSchema, { ...inspection, ...found, subject: 'item', images: [image] });
}

/** The disposition of a line item after the inspection. @param at the index of the line, from 0. */
export function exampleDisposition(at: number) {
  const { outcome } = FINDINGS[at] ?? FINDINGS[0];
  return create(DispositionSchema, { ...inspection, outcome });
}
