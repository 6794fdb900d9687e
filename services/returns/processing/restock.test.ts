import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  DispositionOutcome,
  type LineItemSchema,
  ReturnMethod,
  ReturnSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { restockItems } from './restock.ts';

function restocked(
  line: MessageInitShape<typeof LineItemSchema>,
  returnMethod: ReturnMethod = ReturnMethod.MAIL,
) {
  const details = create(ReturnSchema, {
    returnMethod,
    lineItems: [{ lineItemId: 1n, variantId: 2n, quantity: 3, ...line }],
  });
  return restockItems(details, 70n);
}

const { BACK_TO_STOCK, RESALE_HOLD, RECYCLE, DONATE, MISSING } = DispositionOutcome;

describe('the lines to restock', () => {
  test('are lines that were not assessed, or were assessed as stock', () => {
    expect(restocked({})).toHaveLength(1);
    expect(restocked({ disposition: { outcome: BACK_TO_STOCK } })).toHaveLength(1);
  });

  test.each([RESALE_HOLD, RECYCLE, DONATE, MISSING])(
    'is no line with disposition %s',
    (outcome) => {
      expect(restocked({ disposition: { outcome } })).toEqual([]);
    },
  );

  test('are not lines that the shopper keeps', () => {
    expect(restocked({}, ReturnMethod.KEEP_ITEM)).toEqual([]);
  });

  test.each([
    ['4711', 4711n],
    ['', 70n],
    ['north-wing', 70n],
    ['0', 70n],
    ['9007199254740991', 9007199254740991n],
    ['9007199254740992', 70n],
  ])('goes to the location "%s" of the line only if that is an id', (own, locationId) => {
    expect(restocked({ providerRestockLocationId: own })).toMatchObject([
      { lineItemId: 1n, locationId, variantId: 2n, quantity: 3 },
    ]);
  });
});
