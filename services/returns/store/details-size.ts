import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import type { Condition, LineItem, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { DETAILS_BYTES_MAX } from '../../contract/limits.ts';
import { LINE_AMOUNTS } from '../fields/amounts.ts';
import { LINE_FIELDS } from '../fields/line.ts';
import { RETURN_FIELDS } from '../fields/return.ts';
import { detailsTooLarge } from '../refusals.ts';

/** What a return lacks of its details: its long texts. */
export interface LeftOut {
  /** In UTF-8. */
  readonly bytes: number;
  /** As JSON. */
  readonly jsonBytes: number;
}

/**
 * How large the details of a return are: the bytes of their JSON in UTF-8, in the longest form that any
 * version or currency gives them. Names, punctuation, ids and times count with the most they can take,
 * so the answer itself is up to a hundredth smaller.
 */
export function detailsBytes(of: Return): number {
  const { order, customer, providerTexts, labels } = partsOf(of);
  return (
    FRAME.return +
    order +
    customer +
    providerTexts +
    labels +
    textsIn(RETURN_FIELDS, of) +
    sum(of.lineItems, lineBytes) +
    sum(
      of.exchanges,
      (one) =>
        FRAME.exchange +
        text(one.sku) +
        text(one.title) +
        text(one.outOfStockResolution) +
        amounts([one.price, one.discount, one.tax, one.total]),
    )
  );
}

/**
 * Refuses details that took in more than there is room for. What was larger before may become smaller.
 *
 * @param o.encodedBytes of the details as a message: JSON can take sixteen times as much at most, so that
 *   a usual return costs nothing here.
 * @param o.bytesBefore {@link detailsBytes} before the change; undefined for a new return.
 * @param o.leftOut what `after` lacks of the details.
 * @throws DomainError RETURN_TOO_LARGE.
 */
export function requireDetailsFit(
  after: Return,
  o: {
    readonly encodedBytes: number;
    readonly bytesBefore?: () => number | undefined;
    readonly leftOut?: LeftOut | undefined;
  },
): void {
  const { bytes: encodedMore, jsonBytes: more } = o.leftOut ?? { bytes: 0, jsonBytes: 0 };
  if ((o.encodedBytes + encodedMore) * GROWTH_MAX <= DETAILS_BYTES_MAX) return;
  const bytes = detailsBytes(after) + more;
  if (bytes <= DETAILS_BYTES_MAX) return;
  if ((o.bytesBefore?.() ?? 0) >= bytes) return;
  throw detailsTooLarge(after.id);
}

/** A control character takes six bytes in JSON; a line without any text some two hundred as a message. */
const GROWTH_MAX = 16;

/** What names, punctuation, ids, times, numbers and words of one of these take at most. Bytes. */
const FRAME = {
  return: 2_400,
  line: 900,
  condition: 224,
  disposition: 112,
  upload: 90,
  exchange: 242,
  refund: 372,
  label: 160,
  lineOfLabel: 17,
  exchangeOrder: 20,
} as const;

function partsOf(of: Return) {
  const newest = of.labels.at(-1);
  return {
    order: text(of.order?.name),
    // The e-mail address is there twice.
    customer:
      2 * text(of.customer?.email) + text(of.customer?.firstName) + text(of.customer?.lastName),
    providerTexts:
      text(of.giftCardOrder?.name) +
      sum(of.exchangeOrders, ({ name }) => FRAME.exchangeOrder + text(name)) +
      sum(
        of.refunds,
        (one) =>
          FRAME.refund +
          2 * texts([one.gateway, one.provider, one.money?.value]) +
          text(one.providerRefundId),
      ),
    labels:
      labelTexts(newest) +
      sum(
        of.labels,
        (one) => FRAME.label + labelTexts(one) + FRAME.lineOfLabel * one.lineItemIds.length,
      ),
  };
}

function labelTexts(label: Return['labels'][number] | undefined): number {
  return text(label?.carrier) + text(label?.trackingNumber) + text(label?.url) + text(label?.rate);
}

function lineBytes(line: LineItem): number {
  return (
    FRAME.line +
    textsIn(LINE_FIELDS, line) +
    text(line.consolidationTracking) +
    lineAmounts(line) +
    (line.condition ? conditionBytes(line.condition) : 0) +
    (line.disposition
      ? FRAME.disposition + text(line.disposition.returnProcessor) + text(line.disposition.note)
      : 0) +
    sum(line.uploads, (one) => FRAME.upload + texts([one.source, one.mediaType, one.url]))
  );
}

function conditionBytes(condition: Condition): number {
  return (
    FRAME.condition +
    texts([
      condition.description,
      condition.subject,
      condition.title,
      condition.categoryParent,
      condition.returnProcessor,
      condition.note,
    ]) +
    sum(condition.images, (image) => text(image) + 1)
  );
}

const DERIVED = ['refund', 'refundExcludingShipping', 'refundExcludingShippingTax'] as const;

/** Price, discount and tax are there once more, as the shopper paid them. */
function lineAmounts({ amounts: shop, presentmentAmounts: paid }: LineItem): number {
  return (
    sum([...LINE_AMOUNTS, ...DERIVED], (name) => Math.max(text(shop?.[name]), text(paid?.[name]))) +
    texts([paid?.price, paid?.discount, paid?.tax])
  );
}

/** Each amount is answered in one currency: that of the longer text. */
function amounts(all: readonly (Amount | undefined)[]): number {
  return sum(all, (one) => Math.max(text(one?.shop), text(one?.presentment)));
}

/** The texts of a table's fields; ids, numbers and enums are in the frame. */
function textsIn(table: { readonly publicNames: readonly string[] }, of: object): number {
  const values: Readonly<Record<string, unknown>> = { ...of };
  return sum(table.publicNames, (name) => {
    const value = values[name];
    return typeof value === 'string' ? text(value) : 0;
  });
}

function texts(all: readonly (string | undefined)[]): number {
  return sum(all, text);
}

/** What a text adds to a frame, which has room for null. */
function text(value: string | undefined): number {
  return value === undefined || value === '' ? 0 : Buffer.byteLength(JSON.stringify(value));
}

function sum<T>(all: readonly T[], of: (one: T) => number): number {
  return all.reduce((total, one) => total + of(one), 0);
}
