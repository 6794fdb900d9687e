import { z } from 'zod';
import { ARRIVAL_ITEMS_MAX, ARRIVAL_NOTE_MAX, SHORT_TEXT_MAX } from '../limits.ts';
import { RETURN_STATES } from '../vocabulary.ts';
import { dateTime, ownBound, id as requestId, requiredText, text, typed, units } from './fields.ts';
import { type Page, parametersIn, type QueryResult, readQuery } from './query.ts';
import { id, means, nullableId, nullableText } from './response-fields.ts';
import { destinationOf, shortText } from './return-list.ts';

/** What arrives at a warehouse: additions to the interface. */

const short = () => text({ max: SHORT_TEXT_MAX, own: true }).nullish();
const note = () =>
  text({ max: ARRIVAL_NOTE_MAX, own: true })
    .nullish()
    .meta({ description: 'Free text for people; none when absent' });
const listOf = <S extends z.ZodType>(entry: S) =>
  z
    .array(entry, { error: typed('a list') })
    .max(ARRIVAL_ITEMS_MAX, { error: `must have at most ${ARRIVAL_ITEMS_MAX} entries` })
    .meta(ownBound);

const arrivedItem = z
  .object(
    {
      line_item_id: requestId().meta({
        description: '`line_item_id` of a line item of the return',
      }),
      quantity: units(1).meta({
        description:
          'Units that arrived, the damaged ones included. Units above the announced ones count as unexpected',
      }),
      damaged_quantity: units(0)
        .nullish()
        .meta({ description: 'How many of them are damaged; none when absent' }),
      note: note(),
    },
    { error: typed('an object') },
  )
  .superRefine(({ quantity, damaged_quantity }, context) => {
    if ((damaged_quantity ?? 0) <= quantity) return;
    const message = 'must not exceed quantity, which includes it';
    context.addIssue({ code: 'custom', path: ['damaged_quantity'], message });
  })
  .meta({ id: 'ArrivedItemInput' });

const unexpectedItem = z
  .object(
    {
      sku: short().meta({ description: 'Stock keeping unit; unknown when absent' }),
      barcode: short().meta({ description: 'Barcode; unknown when absent' }),
      title: short().meta({ description: 'What it is, for people; unknown when absent' }),
      quantity: units(1).meta({ description: 'Units that arrived' }),
      note: note(),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'UnexpectedItemInput' });

const SELECTORS = ['return_id', 'tracking_number', 'order_name'] as const;
const EXACTLY_ONE = 'Exactly one of return_id, tracking_number and order_name selects the return';

/** Body of record arrival. */
export const arrivalBody = z
  .object({
    return_id: requestId()
      .nullish()
      .meta({ description: `\`id\` of the return. ${EXACTLY_ONE}` }),
    tracking_number: requiredText({ max: SHORT_TEXT_MAX, own: true })
      .nullish()
      .meta({ description: 'Tracking number of a label of the return' }),
    order_name: requiredText({ max: SHORT_TEXT_MAX, own: true })
      .nullish()
      .meta({ description: 'Name of the order of the return' }),
    destination_id: requestId()
      .nullish()
      .meta({ description: '`id` of the destination where the goods are; unknown when absent' }),
    arrived_at: dateTime()
      .nullish()
      .meta({ description: 'When the goods arrived, not in the future; now when absent' }),
    items: listOf(arrivedItem)
      .superRefine((items, context) => {
        const seen = new Set<number>();
        for (const [index, { line_item_id }] of items.entries()) {
          const path = [index, 'line_item_id'];
          const message = 'must not name a line item twice';
          if (seen.has(line_item_id)) context.addIssue({ code: 'custom', path, message });
          seen.add(line_item_id);
        }
      })
      .nullish()
      .meta({ description: 'The line items that arrived, each at most once' }),
    unexpected: listOf(unexpectedItem)
      .nullish()
      .meta({ description: 'What arrived and is no line item of the return. It is never paid' }),
  })
  .superRefine((body, context) => {
    const isGiven = (name: (typeof SELECTORS)[number]) => (body[name] ?? undefined) !== undefined;
    const [first, second] = SELECTORS.filter(isGiven);
    const fault = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    if (first === undefined) fault('return_id', 'is required, or tracking_number, or order_name');
    if (second !== undefined) fault(second, `must be absent beside ${first}`);
    if ((body.items ?? []).length + (body.unexpected ?? []).length === 0) {
      fault('items', 'must have at least 1 entry, or unexpected must');
    }
  })
  .meta({ id: 'ArrivalBody' });
export type ArrivalBody = z.infer<typeof arrivalBody>;

export const arrival = z
  .object({
    arrival_id: means(id(), 'Identifier of the arrival'),
    return_id: means(id(), 'The return that the goods belong to'),
    return_state: means(
      z.enum(RETURN_STATES).nullable(),
      'State of the return now: `closed`, `cancelled` or `expired` pays nothing for what arrived',
    ),
    items: means(
      z.array(
        z
          .object({
            line_item_id: means(id(), 'The line item'),
            quantity: means(z.int(), 'Units that arrived, as sent'),
            damaged_quantity: means(z.int(), 'How many of them are damaged'),
            unexpected_quantity: means(
              z.int(),
              'How many of them are above the announced units. They are never paid',
            ),
            note: means(nullableText(), 'Free text; null without one'),
          })
          .meta({ id: 'ArrivedItem' }),
      ),
      'The line items of the request, in its order',
    ),
  })
  .meta({ id: 'Arrival' });
export type ArrivalObject = z.infer<typeof arrival>;

const expectedLine = z
  .object({
    return_id: means(id(), 'The return'),
    line_item_id: means(id(), 'The line item'),
    order_name: means(z.string(), 'The order name, such as `#1001`'),
    sku: means(nullableText(), 'Stock keeping unit; null when unknown'),
    barcode: means(nullableText(), 'Barcode; null when unknown'),
    title: means(z.string(), 'Title of the goods'),
    expected_quantity: means(z.int(), 'Units that were announced'),
    arrived_quantity: means(z.int(), 'How many of them have arrived'),
    destination_id: means(nullableId(), 'Where the goods go; null when not chosen'),
    tracking_number: means(nullableText(), 'Of the newest label; null when unknown'),
  })
  .meta({ id: 'ExpectedLine' });

export const expectedPage = z
  .object({
    expected: means(z.array(expectedLine), 'By ascending `line_item_id`'),
    next_cursor: means(nullableText(), '`cursor` of the next page; null on the last'),
  })
  .meta({ id: 'ExpectedPage' });
export type ExpectedPage = z.infer<typeof expectedPage>;

/** Selects expected line items, and a page of them. */
export interface ExpectedQuery extends Page {
  readonly destinationId: bigint | undefined;
  /** Tracking number of a label of the return; empty for all. */
  readonly trackingNumber: string;
  readonly orderName: string;
  readonly sku: string;
  /** Only returns whose details changed at or after this time. */
  readonly updatedSince: Date | undefined;
}

/** The parameters of the query. */
export const EXPECTED_PARAMETERS = [
  ...['destination_id', 'tracking_number', 'order_name', 'sku', 'updated_since'],
  ...['limit', 'cursor'],
] as const;

/** Parses the query of the list of expected line items. Each parameter may occur once, and must not be empty. */
export function readExpectedQuery(query: URLSearchParams): QueryResult<ExpectedQuery> {
  return readQuery(() => {
    const parameters = parametersIn<string>(query, EXPECTED_PARAMETERS);
    return {
      destinationId: destinationOf(parameters.text('destination_id')),
      trackingNumber: shortText(parameters, 'tracking_number'),
      orderName: shortText(parameters, 'order_name'),
      sku: shortText(parameters, 'sku'),
      updatedSince: parameters.time('updated_since'),
      ...parameters.page(),
    };
  });
}
