import { readFile } from 'node:fs/promises';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { PublicError } from './errors.ts';
import { NOT_FOUND } from './errors.ts';
import { sampleEvent } from './sample-event.ts';
import { changeOf, shapeError, shapePayload, shapeResponse } from './shape.ts';
import { payloadOf } from './topics/topics.ts';
import { RELEASED } from './versions.ts';
import { CONDITION_CATEGORIES, TOPICS, TRIGGERS } from './vocabulary.ts';

const newest = (category: string) => {
  const grade = category.startsWith('grade_') ? category.slice('grade_'.length) : null;
  return {
    subject: 'item',
    title: 'In words',
    grade,
    category_name: grade === null ? category : null,
    category_parent: null,
  };
};
const withCategory = (condition_category: unknown) => ({
  id: 1,
  line_items: [{ line_item_id: 2, condition: { note: 'x', condition_category, images: [] } }],
});

describe('condition_category', () => {
  test.each(CONDITION_CATEGORIES)('%s is a word in 2026-07 and an object since', (category) => {
    const details = withCategory(newest(category));
    expect(shapeResponse('2026-07', 'getReturnDetails', details)).toEqual(withCategory(category));
    expect(shapePayload('2026-07', 'return', details)).toEqual(withCategory(category));
    for (const version of ['2026-10', 'unstable']) {
      expect(shapeResponse(version, 'getReturnDetails', details)).toEqual(details);
    }
    expect(shapePayload('2026-10', 'return', details)).toEqual(details);
  });

  test('is a word in gradings of 2026-07, too', () => {
    const graded = (category: unknown) => withCategory(category).line_items;
    const gradings = graded(newest('grade_b'));
    expect(shapeResponse('2026-07', 'gradeItems', gradings)).toEqual(graded('grade_b'));
    expect(shapeResponse('2026-10', 'gradeItems', gradings)).toEqual(gradings);
  });

  test('is null in every version when only an assessment wrote images', () => {
    const details = withCategory(null);
    expect(shapeResponse('2026-07', 'getReturnDetails', details)).toEqual(details);
  });

  test('is the only difference of 2026-07', () => {
    const category = fc.constantFrom(...CONDITION_CATEGORIES);
    const lines = fc.array(
      fc.record({
        line_item_id: fc.nat(),
        title: fc.string(),
        condition: fc.option(fc.record({ note: fc.string(), condition_category: category })),
      }),
    );
    fc.assert(
      fc.property(lines, fc.jsonValue(), (line_items, other) => {
        const old = { other, line_items };
        const details = {
          other,
          line_items: line_items.map((line) => ({
            ...line,
            condition: line.condition && {
              ...line.condition,
              condition_category: newest(line.condition.condition_category),
            },
          })),
        };
        expect(shapeResponse('2026-07', 'getReturnDetails', details)).toEqual(old);
      }),
    );
  });

  test('does not change the original response', () => {
    const details = withCategory(newest('junk'));
    shapeResponse('2026-07', 'getReturnDetails', details);
    expect(details).toEqual(withCategory(newest('junk')));
  });

  test('other operations and topics do not change', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (body) => {
        expect(shapeResponse('2026-07', 'createCart', body)).toBe(body);
      }),
    );
    const payload = withCategory(newest('junk'));
    expect(shapePayload('2026-07', 'restock', payload)).toBe(payload);
  });
});

describe('error bodies', () => {
  const error: PublicError = {
    status: 422,
    body: { message: 'name is required.', errors: {} },
    problem: {
      code: 'VALIDATION_FAILED',
      title: 'Unprocessable Content',
      detail: 'name is required.',
      errors: [{ field: 'name', message: 'name is required.' }],
    },
  };

  test.each(['2026-07', '2026-10'])('%s returns the released shape', (version) => {
    expect(shapeError(version, error)).toEqual({
      contentType: 'application/json',
      body: error.body,
    });
  });

  test('unstable returns a problem document', () => {
    expect(shapeError('unstable', error)).toEqual({
      contentType: 'application/problem+json',
      body: { type: 'about:blank', status: 422, ...error.problem },
    });
  });

  test('unstable keeps the code of the interface and always lists errors', () => {
    expect(shapeError('unstable', NOT_FOUND.webhook).body).toEqual({
      type: 'about:blank',
      title: 'Not Found',
      status: 404,
      detail: 'No webhook has this ID.',
      code: 'NOT_FOUND',
      errors: [],
    });
  });

  test('an error inside a 200 does not change in unstable', () => {
    const refusal = { ...error, status: 200 };
    expect(shapeError('unstable', refusal)).toEqual({
      contentType: 'application/json',
      body: error.body,
    });
  });

  test('a 404 has the shape of its operation', () => {
    const bodies = Object.fromEntries(
      Object.entries(NOT_FOUND).map(([id, { body }]) => [id, body]),
    );
    expect(bodies).toEqual({
      webhook: { errors: { code: 'NOT_FOUND' } },
      delivery: { errors: { code: 'NOT_FOUND' } },
      replay: { errors: { code: 'NOT_FOUND' } },
      destination: { code: 'NOT_FOUND', message: expect.any(String) },
      arrivedReturn: { errors: { message: expect.any(String) } },
      order: { errors: { message: 'No order was found.' } },
      cart: { errors: { message: expect.any(String) } },
      label: { errors: { message: expect.any(String) } },
      return: { errors: { message: expect.any(String) } },
      returnDetails: { errors: { message: 'No return found with this ID.' } },
      processReturn: { errors: { message: expect.any(String), code: 'NOT_FOUND' } },
    });
  });
});

describe.each(RELEASED.slice(1))('what is said about %s', (version) => {
  test('is in the changelog', async () => {
    const changelog = await readFile(new URL('../../docs/changelog.md', import.meta.url), 'utf8');
    const section = changelog.split(`\n## ${version}\n`)[1]?.split('\n## ')[0] ?? '';
    expect(section.replaceAll(/\s+/g, ' ')).toContain(changeOf(version)?.about ?? 'a sentence');
  });

  test('names the topics whose payloads differ', () => {
    const before = RELEASED[RELEASED.indexOf(version) - 1] ?? '';
    const changes = (topic: (typeof TOPICS)[number]) =>
      TRIGGERS.some((trigger) => {
        const event = sampleEvent(trigger, 3n);
        const payload = payloadOf(topic, event, event.snapshot) ?? {};
        const [one, other] = [before, version].map((name) => shapePayload(name, topic, payload));
        return JSON.stringify(one) !== JSON.stringify(other);
      });
    expect(TOPICS.filter(changes)).toEqual(changeOf(version)?.topics);
  });
});
