import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  ReturnCommentSchema,
  ReturnLineSchema,
  ReturnSchema,
} from '../../../proto/gen/rms/portal/v1/return_pb.ts';
import {
  DispositionOutcomeSchema,
  type Label,
  LabelStatusSchema,
  type LineAmounts,
  type LineItem,
  LineOutcomeSchema,
  type Return,
  ReturnMethodSchema,
  type Totals,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { word } from '../../../services/contract/views/values.ts';
import {
  DISPOSITION_OUTCOMES,
  LABEL_STATUSES,
  LINE_OUTCOMES,
  RETURN_METHODS,
} from '../../../services/contract/vocabulary.ts';
import type { ReturnCheck } from '../return-check.ts';
import { effectViews, processingEffects } from './return-effects.ts';
import { returnSummaryView } from './return-summary.ts';

/**
 * @param o.destinationName empty when unknown.
 * @param o.possible what the user may do now.
 */
export function returnView(
  ret: Return,
  o: {
    readonly destinationName: string;
    readonly possible: readonly string[];
    readonly check: ReturnCheck;
    readonly comment?: MessageInitShape<typeof ReturnCommentSchema> | undefined;
  },
): MessageInitShape<typeof ReturnSchema> {
  return {
    summary: returnSummaryView(ret),
    revision: String(ret.revision),
    ...(ret.editedAt && { editedAt: ret.editedAt }),
    ...(ret.archivedAt && { archivedAt: ret.archivedAt }),
    orderId: String(ret.order?.id ?? 0n),
    providerOrderId: String(ret.order?.providerOrderId ?? 0n),
    returnMethod: word(ReturnMethodSchema, ret.returnMethod, RETURN_METHODS) ?? '',
    currency: ret.currency,
    presentmentCurrency: ret.presentmentCurrency,
    amounts: amountViews(ret),
    lines: ret.lineItems.map(lineView),
    exchanges: ret.exchanges.map(({ title, sku, total, outOfStock }) => ({
      title,
      sku,
      outOfStock,
      ...(total && { total }),
    })),
    labels: ret.labels.map(labelView).reverse(),
    effects: effectViews(ret),
    destinationId: String(ret.destinationId),
    destinationName: o.destinationName,
    statusPageUrl: ret.statusPageUrl,
    packageReference: ret.packageReference,
    possible: [...o.possible],
    processingDoes: processingEffects(ret, o.check),
    ...o.check,
    ...(o.comment && { reviewComment: o.comment }),
  };
}

/** The amounts in the order to show them, with their names in the REST API. */
const AMOUNTS: readonly (readonly [string, (totals: Totals) => string])[] = [
  ['return_product_total', (totals) => totals.returnProductTotal],
  ['return_discount_total', (totals) => totals.returnDiscountTotal],
  ['return_tax_total', (totals) => totals.returnTaxTotal],
  ['return_total', (totals) => totals.returnTotal],
  ['refund_shipping_total', (totals) => totals.refundShippingTotal],
  ['handling_fee', (totals) => totals.handlingFee],
  ['total', (totals) => totals.total],
  ['refund', (totals) => totals.refund],
  ['return_credit_total', (totals) => totals.returnCreditTotal],
  ['exchange_total', (totals) => totals.exchangeTotal],
  ['exchange_credit_total', (totals) => totals.exchangeCreditTotal],
  ['upsell', (totals) => totals.upsell],
  ['gift_card', (totals) => totals.giftCard],
];

function amountViews({ totals, presentmentTotals }: Return) {
  if (!totals) return [];
  return AMOUNTS.map(([name, read]) => ({
    name,
    amount: { shop: read(totals), presentment: presentmentTotals ? read(presentmentTotals) : '' },
  }));
}

function lineView(line: LineItem): MessageInitShape<typeof ReturnLineSchema> {
  const { condition, disposition } = line;
  const amount = (name: LineAmountName) => amountOf(name, line.amounts, line.presentmentAmounts);
  return {
    id: String(line.lineItemId),
    title: line.title,
    variantTitle: line.variantTitle,
    sku: line.sku,
    image: line.image,
    quantity: line.quantity,
    price: amount('price'),
    discount: amount('discount'),
    tax: amount('tax'),
    refund: amount('refund'),
    refundShipping: amount('refundShipping'),
    outcome: word(LineOutcomeSchema, line.outcome, LINE_OUTCOMES) ?? '',
    reason: line.reason,
    parentReason: line.parentReason,
    ...(line.returnedAt && { returnedAt: line.returnedAt }),
    ...(condition && {
      condition: {
        title: condition.title,
        grade: condition.grade ?? '',
        description: condition.description,
        note: condition.note ?? '',
        returnProcessor: condition.returnProcessor ?? '',
        ...(condition.inspectedAt && { inspectedAt: condition.inspectedAt }),
        images: condition.images,
      },
    }),
    ...(disposition && {
      disposition: {
        outcome: word(DispositionOutcomeSchema, disposition.outcome, DISPOSITION_OUTCOMES) ?? '',
        note: disposition.note ?? '',
        returnProcessor: disposition.returnProcessor ?? '',
        ...(disposition.inspectedAt && { inspectedAt: disposition.inspectedAt }),
      },
    }),
    uploads: line.uploads.map(({ url }) => url),
  };
}

type LineAmountName = 'price' | 'discount' | 'tax' | 'refund' | 'refundShipping';

function amountOf(
  name: LineAmountName,
  shop: LineAmounts | undefined,
  presentment: LineAmounts | undefined,
) {
  return { shop: shop?.[name] ?? '', presentment: presentment?.[name] ?? '' };
}

function labelStatus(label: Label | undefined): string {
  return (label && word(LabelStatusSchema, label.status, LABEL_STATUSES)) ?? '';
}

function labelView(label: Label) {
  const { id, carrier, trackingNumber, url, rate, lineItemIds, createdAt, updatedAt } = label;
  return {
    id: String(id),
    carrier,
    trackingNumber,
    url,
    rate,
    status: labelStatus(label),
    lineItemIds: lineItemIds.map(String),
    ...(createdAt && { createdAt }),
    ...(updatedAt && { updatedAt }),
  };
}
