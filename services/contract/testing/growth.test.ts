import { describe, expect, test } from '@jest/globals';
import { breakingChanges } from './growth.ts';

const schemas = (value: object) => ({ components: { schemas: value } });

describe('a released document', () => {
  test.each([
    ['a new field', schemas({ A: {} }), schemas({ A: { x: 1 }, B: {} })],
    ['a new enum value', { enum: ['a', 'b'] }, { enum: ['c', 'b', 'a'] }],
    ['a new required field in a response', { required: ['a'] }, { required: ['b', 'a'] }],
    ['another text', { description: 'a' }, { description: 'b' }],
    [
      'a parameter more',
      { parameters: [{ name: 'a' }] },
      { parameters: [{ name: 'b' }, { name: 'a' }] },
    ],
    [
      'an object as a component',
      { responses: { 401: { headers: { A: { required: true } } } } },
      {
        responses: { 401: { $ref: '#/components/responses/No' } },
        components: { responses: { No: { headers: { A: { required: true, schema: {} } } } } },
      },
    ],
    ['another example', { schema: {}, example: 1 }, { schema: {}, example: 2 }],
    ['another contact', { info: { contact: { name: 'a' } } }, { info: { contact: {} } }],
    [
      'asking for less',
      schemas({ ABody: { required: ['a', 'b'] } }),
      schemas({ ABody: { required: ['a'] } }),
    ],
    [
      'also accepting an empty text',
      schemas({ ABody: { properties: { a: { pattern: '^[a-z]{2}$' } } } }),
      schemas({ ABody: { properties: { a: { pattern: '^(?:[a-z]{2})?$' } } } }),
    ],
  ])('may have %s', (_name, before, after) => {
    expect(breakingChanges(before, after)).toEqual([]);
  });

  test.each([
    ['without a path', { paths: { '/a': {} } }, { paths: {} }, '/paths//a was removed'],
    ['with another type', { a: { type: 'string' } }, { a: { type: 'integer' } }, '/a/type changed'],
    ['without an enum value', { enum: ['a', 'b'] }, { enum: ['a'] }, '/enum lost "b"'],
    [
      'without a field',
      { properties: { title: {} } },
      { properties: {} },
      '/properties/title was removed',
    ],
    [
      'asking for more',
      schemas({ ABody: { required: ['a'] } }),
      schemas({ ABody: { required: ['a', 'b'] } }),
      '/components/schemas/ABody/required requires b',
    ],
    [
      'accepting other texts',
      schemas({ ABody: { a: { pattern: '^[a-z]{2}$' } } }),
      schemas({ ABody: { a: { pattern: '^[a-z]{3}$' } } }),
      '/components/schemas/ABody/a/pattern changed',
    ],
    [
      'returning other texts',
      schemas({ A: { a: { pattern: '^[a-z]{2}$' } } }),
      schemas({ A: { a: { pattern: '^(?:[a-z]{2})?$' } } }),
      '/components/schemas/A/a/pattern changed',
    ],
    [
      'with a component that is less',
      { a: { headers: { A: {} } } },
      {
        a: { $ref: '#/components/responses/B' },
        components: { responses: { B: { headers: {} } } },
      },
      '/a/headers/A was removed',
    ],
    ['no longer promising a field', { required: ['a'] }, { required: [] }, '/required lost "a"'],
  ])('may not be %s', (_name, before, after, change) => {
    expect(breakingChanges(before, after)).toEqual([change]);
  });
});
