import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { SubmitReturnRequestSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { exampleReturn } from '../../../services/contract/examples/return.ts';
import { DESTINATION_ID, SERIAL, SHOP_ID } from '../../../services/contract/examples/story.ts';
import { submission } from './submission.ts';

const shop = { id: Number(SHOP_ID), currency: 'GBP', destinationId: Number(DESTINATION_ID) };
const demo = create(SubmitReturnRequestSchema, submission(shop, { key: 'demo', serial: SERIAL }));
const example = exampleReturn();

test("the return of the OpenAPI examples is the demo shop's first one", () => {
  const { id: _assigned, ...order } = example.order ?? {};
  expect(demo.order).toMatchObject(known(order));
  const { email, firstName, lastName } = demo.customer ?? {};
  expect(example.customer).toMatchObject({ email, firstName, lastName });
  const { outcome, returnMethod, destinationId, statusPageUrl, packageReference } = demo;
  expect(example).toMatchObject({ outcome, returnMethod, destinationId });
  expect(example).toMatchObject({ statusPageUrl, packageReference });
  expect(example.totals?.handlingFee).toBe(demo.amounts?.handlingFee?.shop);
});

test('its lines have the titles, ids and amounts of the demo', () => {
  const lines = example.lineItems.map(({ amounts, ...line }) => ({ ...amounts, ...line }));
  expect(lines).toHaveLength(demo.lines.length);
  for (const [at, line] of demo.lines.entries()) {
    const amounts = Object.entries(line).flatMap(([name, value]) =>
      isAmount(value) ? [[name, value.shop]] : [],
    );
    const texts = Object.entries(line).filter(
      ([name, value]) =>
        name !== '$typeName' && name in (lines[at] ?? {}) && typeof value !== 'object',
    );
    expect(lines[at]).toMatchObject(Object.fromEntries([...texts, ...amounts]));
  }
});

const known = (message: object) =>
  Object.fromEntries(Object.entries(message).filter(([name]) => !name.startsWith('$')));

function isAmount(value: unknown): value is { readonly shop: string } {
  return typeof value === 'object' && value !== null && 'shop' in value;
}
