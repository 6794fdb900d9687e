import { expect, test } from '@jest/globals';
import { firstOf, journeyForTests } from '../kit/journeys/journey.ts';

// The listeners of the stack at dates of the version calendar. gateway/rest/versions.test.ts has the rules.

const journey = journeyForTests(['--calendar', '2026-11-20']);

/** The categories of a graded return, by path segment and day, and the version that served them. */
async function categories(segment: string, day?: string) {
  const { stack, send } = journey;
  const id = firstOf(stack.shop, 'graded').id;
  const path = `/api${segment}/warehouse/return/details?return_id=${id}`;
  const baseUrl = day === undefined ? stack.file.base_url : (stack.file.base_url_at[day] ?? '');
  const { body, headers } = await send({ path, baseUrl });
  const { line_items } = body as { line_items: { condition: { condition_category: unknown } }[] };
  return [
    headers['x-service-api-version'],
    ...line_items.map(({ condition }) => condition.condition_category),
  ];
}

const OBJECTS = [
  expect.objectContaining({ subject: 'item', grade: 'b', category_name: null }),
  expect.objectContaining({ grade: null, category_name: 'incorrect_item' }),
];

test.each([
  ['/v1', undefined, ['2026-07', 'grade_b', 'incorrect_item']],
  ['/2026-10', undefined, ['2026-10', ...OBJECTS]],
  ['/2026-07', '2027-08-01', ['2026-07', 'grade_b', 'incorrect_item']],
  ['/2026-07', '2027-11-01', ['2026-10', ...OBJECTS]],
  ['', '2028-02-01', ['2026-10', ...OBJECTS]],
])(
  'the condition categories of a graded return under /api%s on %s',
  async (segment, day, shown) => {
    expect(await categories(segment, day)).toEqual(shown);
  },
);
