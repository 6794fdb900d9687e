import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import type { Condition, LineItem, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { DETAILS_BYTES_MAX } from '../../contract/limits.ts';
import { snakeCase } from '../../platform/text.ts';
import { detailsTooLarge } from '../errors.ts';
import { LINE_FIELDS, RETURN_FIELDS } from '../fields.ts';
import { LINE_AMOUNTS } from '../money/totals.ts';

/** The size of the long texts in whose place a loaded return has hashes. */
export interface LeftOut {
  /** In UTF-8. */
  readonly bytes: number;
  /** As JSON. */
  readonly jsonBytes: number;
}

/**
 * The size of the details of a return: the bytes of their JSON in UTF-8, in the longest form of any version or
 * currency. Names, punctuation, ids and times count with their maximum, so a response is up to a hundredth smaller.
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
 * Checks that a change did not make the details too large. Details that were too large before the change may stay too
 * large if they do not grow.
 *
 * @param o.encodedBytes of the details as a message. JSON has at most sixteen times as many bytes, so a usual return
 *   need not be measured.
 * @param o.bytesBefore {@link detailsBytes} before the change; undefined for a new return.
 * @param o.leftOut the size of the long texts that `after` does not have.
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
 * JSON takes six bytes for a control character, which a message has in one. Names, zeros and nulls need the rest: a line
 * item without texts counts 900 bytes here, and its ids, times and amounts take at least a sixteenth of it as a message.
 */
const GROWTH_MAX = 16;

/**
 * Maximum size of the names, punctuation, ids, times, numbers and enums of each part, without the names of text fields
 * and of the amounts of a line item: those are in the tables of `../fields`. Bytes.
 *
 * Each number is the size that one more part adds to the JSON of the details, minus what the functions below count for
 * it, and rounded up. The part has its longest ids, times and enums. The test `an added part has the size that was
 * measured` fails when a field is added to a part, and has the sizes.
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
    // The details have the e-mail address twice.
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

/** The size of `"0.000"`: an absent amount is zero in a response. */
const ZERO_AMOUNT = 7;
const DERIVED = ['refund', 'refundExcludingShipping', 'refundExcludingShippingTax'] as const;

/** Price, discount and tax are in the details twice: the second time in the currency in which the shopper paid. */
function lineAmounts({ amounts: shop, presentmentAmounts: paid }: LineItem): number {
  return (
    sum(
      [...LINE_AMOUNTS, ...DERIVED],
      (name) => nameOf(name) + ZERO_AMOUNT + Math.max(text(shop?.[name]), text(paid?.[name])),
    ) + texts([paid?.price, paid?.discount, paid?.tax])
  );
}

/** A response has each amount in one currency; the longer text counts. */
function amounts(all: readonly (Amount | undefined)[]): number {
  return sum(all, (amount) => Math.max(text(amount?.shop), text(amount?.presentment)));
}

/** The text fields of a table, with their names; ids, numbers and enums count in {@link FRAME}. */
function textsIn(table: { readonly publicNames: readonly string[] }, message: object): number {
  const values: Readonly<Record<string, unknown>> = { ...message };
  return sum(table.publicNames, (name) => {
    const value = values[name];
    return typeof value === 'string' ? nameOf(name) + 'null'.length + text(value) : 0;
  });
}

/** A comma, the name in quotes, and a colon. */
function nameOf(field: string): number {
  return snakeCase(field).length + 4;
}

function texts(all: readonly (string | undefined)[]): number {
  return sum(all, text);
}

/** The size that a text adds to null. The size of null is counted already. */
function text(value: string | undefined): number {
  return value === undefined || value === '' ? 0 : Buffer.byteLength(JSON.stringify(value));
}

function sum<T>(items: readonly T[], sizeOf: (item: T) => number): number {
  return items.reduce((total, item) => total + sizeOf(item), 0);
}
