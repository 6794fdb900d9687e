import {
  create,
  type DescField,
  type DescMessage,
  type MessageInitShape,
  ScalarType,
  toBinary,
} from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { describe, expect, test } from '@jest/globals';
import {
  CustomerUpload_Kind,
  DispositionOutcome,
  LabelStatus,
  LineAmountsSchema,
  LineItemSchema,
  LineOutcome,
  Outcome,
  type Return,
  ReturnMethod,
  ReturnSchema,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { change202610 } from '../../contract/changes/2026-10.ts';
import { returnDetailsView } from '../../contract/details/return-details.ts';
import { DETAILS_BYTES_MAX } from '../../contract/limits.ts';
import { sampleReturn } from '../../contract/sample-return.ts';
import { LINE_FIELDS, RETURN_FIELDS } from '../fields.ts';
import { detailsBytes, requireDetailsFit } from './details-size.ts';

const MAX = 2n ** 53n - 1n;
const at = timestampFromDate(new Date('2026-07-01T09:08:07.654Z'));
const SUM = '999999999999.99';
/** Characters of two and four bytes, and one that JSON writes with six. */
const WORDS = 'é \u{1f4e6} \u0001 "quoted" \\';

/** The size of the response in each version and currency. */
function answered(of: Return): number[] {
  return ([undefined, 'shop', 'presentment'] as const).flatMap((currency) => {
    const newest = returnDetailsView(of, currency);
    const oldest = change202610.response?.('getReturnDetails', newest);
    return [newest, oldest].map((body) => Buffer.byteLength(JSON.stringify(body)));
  });
}

/** {@link WORDS} in each text among these fields of a message, so that a new text is measured, too. */
function textsOf(message: DescMessage, names: readonly string[]): Record<string, string> {
  const isText = ({ fieldKind, scalar, localName }: DescField) =>
    fieldKind === 'scalar' && scalar === ScalarType.STRING && names.includes(localName);
  const texts = message.fields.filter(isText).map(({ localName }) => [localName, WORDS]);
  expect(texts).not.toEqual([]);
  return Object.fromEntries(texts);
}

/** Every amount of a line item, so that a new one is measured, too. */
const amounts = Object.fromEntries(LineAmountsSchema.fields.map((field) => [field.localName, SUM]));
const line = {
  lineItemId: MAX,
  providerLineItemId: MAX,
  productId: MAX,
  variantId: MAX,
  consolidationDestinationId: MAX,
  returnedAt: at,
  outcome: LineOutcome.EXCHANGE,
  ...textsOf(LineItemSchema, LINE_FIELDS.publicNames),
  consolidationTracking: WORDS,
  amounts,
  presentmentAmounts: { price: '1' },
  condition: {
    description: WORDS,
    subject: WORDS,
    title: WORDS,
    categoryName: 'incorrect_item',
    categoryParent: WORDS,
    returnProcessor: WORDS,
    note: WORDS,
    inspectedAt: at,
    images: [WORDS, WORDS],
  },
  disposition: {
    outcome: DispositionOutcome.BACK_TO_STOCK,
    returnProcessor: WORDS,
    note: WORDS,
    inspectedAt: at,
  },
  uploads: [CustomerUpload_Kind.IMAGE, CustomerUpload_Kind.MEDIA].map((kind) => ({
    id: MAX,
    kind,
    source: WORDS,
    mediaType: WORDS,
    url: WORDS,
    createdAt: at,
  })),
} satisfies MessageInitShape<typeof ReturnSchema>['lineItems'] extends (infer T)[] | undefined
  ? T
  : never;

const money = { shop: '1.00', presentment: SUM };
const full = create(ReturnSchema, {
  id: MAX,
  currency: 'GBP',
  presentmentCurrency: 'KWD',
  destinationId: MAX,
  createdAt: at,
  updatedAt: at,
  editedAt: at,
  state: ReturnState.CANCELLED,
  outcome: Outcome.EXCHANGE_REFUND,
  returnMethod: ReturnMethod.KEEP_ITEM,
  ...textsOf(ReturnSchema, RETURN_FIELDS.publicNames),
  order: { id: MAX, providerOrderId: MAX, name: WORDS, number: MAX, providerOrderNumber: MAX },
  customer: { email: WORDS, firstName: WORDS, lastName: WORDS },
  giftCardOrder: { id: MAX, name: WORDS },
  giftCardPresentment: { value: SUM, currency: 'KWD' },
  exchangeOrders: [{ id: MAX, name: WORDS }],
  exchanges: [
    {
      exchangeId: MAX,
      productId: MAX,
      variantId: MAX,
      sku: WORDS,
      title: WORDS,
      price: money,
      discount: money,
      tax: money,
      total: money,
      type: 'variant',
      outOfStockResolution: WORDS,
    },
  ],
  refunds: [
    {
      id: MAX,
      gateway: WORDS,
      provider: WORDS,
      providerRefundId: `${MAX}`,
      money: { value: SUM, currency: 'KWD' },
      providerCreatedAt: at,
      createdAt: at,
      updatedAt: at,
    },
  ],
  labels: [
    {
      id: MAX,
      carrier: WORDS,
      trackingNumber: WORDS,
      url: WORDS,
      rate: SUM,
      rateMinor: MAX,
      status: LabelStatus.OUT_FOR_DELIVERY,
      updatedAt: at,
      lineItemIds: [MAX, MAX],
    },
  ],
  lineItems: [line],
});

/** A return whose details have exactly this many bytes. */
function sized(bytes: number): Return {
  const of = sampleReturn(1n);
  const [first] = of.lineItems;
  if (!first) throw new Error('the sample has a line');
  first.disposition = undefined;
  first.condition = undefined;
  first.title = '-';
  first.title = '-'.repeat(bytes - detailsBytes(of) + 1);
  return of;
}
const check = (after: Return, before?: Return) =>
  requireDetailsFit(after, {
    encodedBytes: toBinary(ReturnSchema, after).length,
    bytesBefore: () => before && detailsBytes(before),
  });

describe('the size of details', () => {
  const cases: [string, Return][] = [
    ['the sample', sampleReturn(1n, ReturnState.CLOSED)],
    ['only a line', create(ReturnSchema, { currency: 'GBP', lineItems: [{}] })],
    ['all at its longest', full],
    [
      'many lines',
      create(ReturnSchema, { ...full, lineItems: Array(250).fill(full.lineItems[0]) }),
    ],
  ];

  test.each(cases)('covers the response in every version and currency: %s', (_, of) => {
    for (const bytes of answered(of)) expect(detailsBytes(of)).toBeGreaterThanOrEqual(bytes);
  });

  // `full` has the longest value of each field, also of a text or an amount of a line item that is new.
  test.each(['lineItems', 'exchanges', 'refunds', 'labels', 'exchangeOrders'] as const)(
    'covers an added part at its longest: %s',
    (parts) => {
      const [first] = full[parts];
      const once = create(ReturnSchema, { currency: 'GBP', [parts]: [first] });
      const twice = create(ReturnSchema, { currency: 'GBP', [parts]: [first, first] });
      const [before, after] = [answered(once), answered(twice)];
      const longest = Math.max(...after.map((bytes, nth) => bytes - (before[nth] ?? 0)));
      expect(longest).toBeGreaterThan(0);
      expect(detailsBytes(twice) - detailsBytes(once)).toBeGreaterThanOrEqual(longest);
    },
  );

  test('of a long text is its size as JSON', () => {
    const of = create(ReturnSchema, { lineItems: [{ disposition: { note: '\u{1f4e6}' } }] });
    const long = create(ReturnSchema, {
      lineItems: [{ disposition: { note: '\u{1f4e6}'.repeat(65_535) } }],
    });
    expect(detailsBytes(long) - detailsBytes(of)).toBe(4 * 65_534);
  });
});

describe('the limit of the details', () => {
  test('is 24 MiB', () => {
    expect(() => check(sized(DETAILS_BYTES_MAX))).not.toThrow();
    expect(() => check(sized(DETAILS_BYTES_MAX + 1))).toThrow('would be larger than 24 MiB');
  });

  test('does not apply to details that become smaller or stay as large', () => {
    const former = sized(DETAILS_BYTES_MAX + 10);
    expect(() => check(sized(DETAILS_BYTES_MAX + 10), former)).not.toThrow();
    expect(() => check(sized(DETAILS_BYTES_MAX + 11), former)).toThrow();
  });

  test('is checked for everything that may be larger as JSON than as a message', () => {
    const before = create(ReturnSchema, { id: 1n });
    const after = create(ReturnSchema, {
      id: 1n,
      lineItems: [{ disposition: { note: '\u0001'.repeat(DETAILS_BYTES_MAX / 5) } }],
    });
    expect(() => check(after, before)).toThrow('24 MiB');
  });
});
