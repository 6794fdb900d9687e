import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import type { Condition, LineItem, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { DETAILS_BYTES_MAX } from '../../contract/limits.ts';
import { snakeCase } from '../../platform/values/text.ts';
import { detailsTooLarge } from '../errors.ts';
import { LINE_FIELDS, RETURN_FIELDS } from '../fields.ts';
import { LINE_AMOUNTS } from '../money/totals.ts';

/** The size of the long texts that a loaded return lacks. It has hashes in their place. */
export interface LeftOut {
  /** Size in UTF-8. Bytes. */
  readonly bytes: number;
  /** Size as JSON. Bytes. */
  readonly jsonBytes: number;
}

/**
 * Returns the size of the details of a return: the bytes of their JSON in UTF-8, in the longest form of any version or
 * currency. Names, punctuation, ids and times count with their maximum length. So a response may be smaller than this
 * size, by at most a hundredth.
 */
export function detailsBytes(details: Return): number {
  const { order, customer, providerTexts, labels } = partsOf(details);
  return (
    FRAME.return +
    order +
    customer +
    providerTexts +
    labels +
    textsIn(RETURN_FIELDS, details) +
    sum(details.lineItems, lineBytes) +
    sum(
      details.exchanges,
      (exchange) =>
        FRAME.exchange +
        text(exchange.sku) +
        text(exchange.title) +
        text(exchange.outOfStockResolution) +
        amounts([exchange.price, exchange.discount, exchange.tax, exchange.total]),
    )
  );
}

/**
 * Checks that a change did not make the details too large. Details that were too large before the change may stay so
 * when they do not grow.
 *
 * @param o.encodedBytes size of the details as a proto message. Their JSON has at most sixteen times as many bytes, so
 *   most returns need not be measured.
 * @param o.bytesBefore {@link detailsBytes} before the change; undefined for a new return.
 * @param o.leftOut size of the long texts that `after` lacks.
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

/**
 * How many times larger than its proto message the JSON of a return can be. A control character has six bytes in JSON,
 * and one in a message. Names, zeros and nulls also make the JSON larger. A line item without texts counts 900 bytes
 * here, and its ids, times and amounts take at least a sixteenth of this in a message.
 */
const GROWTH_MAX = 16;

/**
 * Maximum size of the names, punctuation, ids, times, numbers and enums of each part. The names of text fields and of
 * the amounts of a line item are not in it, because they are in the tables of `../fields`. Bytes.
 *
 * Each number is the size that one more part adds to the JSON of the details, minus what the functions below count for
 * it, and rounded up. The part has its longest ids, times and enums. The test `covers an added part at its longest` fails
 * when a field is added to a part, and shows the new sizes.
 */
const FRAME = {
  return: 2_352,
  line: 430,
  condition: 224,
  disposition: 112,
  upload: 90,
  exchange: 242,
  refund: 372,
  label: 160,
  lineOfLabel: 17,
  exchangeOrder: 20,
} as const;

function partsOf(details: Return) {
  const newest = details.labels.at(-1);
  return {
    order: text(details.order?.name),
    // The e-mail address is in the details twice.
    customer:
      2 * text(details.customer?.email) +
      text(details.customer?.firstName) +
      text(details.customer?.lastName),
    providerTexts:
      text(details.giftCardOrder?.name) +
      sum(details.exchangeOrders, ({ name }) => FRAME.exchangeOrder + text(name)) +
      sum(
        details.refunds,
        (refund) =>
          FRAME.refund +
          2 * texts([refund.gateway, refund.provider, refund.money?.value]) +
          text(refund.providerRefundId),
      ),
    labels:
      labelTexts(newest) +
      sum(
        details.labels,
        (label) => FRAME.label + labelTexts(label) + FRAME.lineOfLabel * label.lineItemIds.length,
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
    sum(
      line.uploads,
      ({ source, mediaType, url }) => FRAME.upload + texts([source, mediaType, url]),
    )
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

/** Size of `"0.000"`, because an absent amount is zero in a response. Bytes. */
const ZERO_AMOUNT = 7;
const DERIVED = ['refund', 'refundExcludingShipping', 'refundExcludingShippingTax'] as const;

/**
 * Size of the amounts of a line item. Price, discount and tax are in the details twice: the second time in the currency
 * in which the shopper paid.
 */
function lineAmounts({ amounts: shop, presentmentAmounts: paid }: LineItem): number {
  return (
    sum(
      [...LINE_AMOUNTS, ...DERIVED],
      (name) => nameOf(name) + ZERO_AMOUNT + Math.max(text(shop?.[name]), text(paid?.[name])),
    ) + texts([paid?.price, paid?.discount, paid?.tax])
  );
}

/** Size of amounts. A response has each amount in one currency, so the longer text counts. */
function amounts(all: readonly (Amount | undefined)[]): number {
  return sum(all, (amount) => Math.max(text(amount?.shop), text(amount?.presentment)));
}

/** Size of the text fields of a table, with their names. Ids, numbers and enums are in {@link FRAME}. */
function textsIn(table: { readonly publicNames: readonly string[] }, message: object): number {
  const values: Readonly<Record<string, unknown>> = { ...message };
  return sum(table.publicNames, (name) => {
    const value = values[name];
    return typeof value === 'string' ? nameOf(name) + 'null'.length + text(value) : 0;
  });
}

/** Size of a name in JSON, with a comma, quotes and a colon. */
function nameOf(field: string): number {
  return snakeCase(field).length + 4;
}

function texts(all: readonly (string | undefined)[]): number {
  return sum(all, text);
}

/** The size of a text minus that of null, which is already counted. */
function text(value: string | undefined): number {
  return value === undefined || value === '' ? 0 : Buffer.byteLength(JSON.stringify(value));
}

function sum<T>(items: readonly T[], sizeOf: (item: T) => number): number {
  return items.reduce((total, item) => total + sizeOf(item), 0);
}
