import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { OPERATIONS } from './operations.ts';
import { validateBody } from './validate.ts';

const names = [
  ...['items', 'line_item_id', 'note', 'images', 'inspected_at', 'name', 'address', 'city', 'cart'],
  ...['carrier', 'tracking_number', 'rate', 'line_item_ids', 'created_at', 'occurred_at'],
  ...['category', 'subject', 'title', 'description', 'return_processor'],
  ...[
    ...['overlap_hours', 'kind', 'webhook_id', 'states', 'return_id', 'from', 'to'],
    'variant_id',
    'shopify',
    'category',
    'comment',
    'topic',
    'trigger',
    'url',
    'status',
  ],
];
const hostileBodies = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(
      null,
      true,
      0,
      1,
      -0,
      1e300,
      Number.POSITIVE_INFINITY,
      '',
      ' ',
      '\0',
      '\ud800',
      'other',
      'return',
    ),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
  object: fc.dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), tie('value')),
})).object;

test('no body makes the validator throw, or gets a message of the library', () => {
  const operations = OPERATIONS.filter(({ body }) => body).map(({ id }) => id);
  const wording = /^.+ (must|is required).*\.$/s;
  fc.assert(
    fc.property(fc.constantFrom(...operations), hostileBodies, (operation, body) => {
      const result = validateBody(operation, 'unstable', body);
      if (!result.ok) expect(result.message).toMatch(wording);
    }),
    { numRuns: 2000 },
  );
});
