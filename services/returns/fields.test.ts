import type { DescMessage } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import {
  LineAmountsSchema,
  LineChangeSchema,
  LineInputSchema,
  LineItemSchema,
  ReturnSchema,
  SubmitReturnRequestSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { LINE_FIELDS, RETURN_FIELDS } from './fields.ts';
import { LINE_AMOUNTS } from './money/totals.ts';

/** Fields that submissions and details share, and that have checks or columns of their own. */
const WITH_OWN_CODE = new Set([
  'shopId',
  'currency',
  'presentmentCurrency',
  'destinationId',
  'quantity',
]);

const scalarsOf = ({ fields }: DescMessage) =>
  fields.filter(({ fieldKind }) => fieldKind === 'scalar').map(({ localName }) => localName);

test.each([
  ['RETURN_FIELDS', SubmitReturnRequestSchema, ReturnSchema, RETURN_FIELDS],
  ['LINE_FIELDS', LineInputSchema, LineItemSchema, LINE_FIELDS],
] as const)(
  '%s of fields.ts has each field that is submitted and read',
  (_, input, read, table) => {
    const readable = new Set(scalarsOf(read));
    const missing = scalarsOf(input).filter(
      (name) => readable.has(name) && !(name in table.inputs) && !WITH_OWN_CODE.has(name),
    );
    expect(missing).toEqual([]);
  },
);

test.each([LineInputSchema, LineChangeSchema, LineAmountsSchema])(
  '$typeName has each amount of a line item',
  ({ fields }) => {
    const names = new Set(fields.map(({ localName }) => localName));
    expect(LINE_AMOUNTS.filter((name) => !names.has(name))).toEqual([]);
  },
);
