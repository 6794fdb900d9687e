import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { objectSchema } from './json-schema.ts';
import { described } from './result-schema.ts';

/** The listed schema of a field of a result. */
const listed = (field: z.ZodType): unknown =>
  Object(objectSchema(z.strictObject({ field }), 'output').properties).field;

test.each([
  ['a text', z.string().nullable(), { type: ['string', 'null'] }],
  ['a number', z.number().min(0).nullable(), { type: ['number', 'null'] }],
  [
    'one of few values',
    z.enum(['a', 'b']).nullable(),
    { type: ['string', 'null'], enum: ['a', 'b', null] },
  ],
  [
    'an object',
    z.strictObject({ id: z.int() }).nullable(),
    { type: ['object', 'null'], properties: { id: { type: 'integer' } } },
  ],
  [
    'an object that is described elsewhere',
    described('count, more', z.strictObject({ count: z.int() })).nullable(),
    { type: ['object', 'null'], description: 'count, more' },
  ],
])('%s or null has one list of types', (_, field, schema) => {
  expect(listed(field)).toEqual(schema);
  expect(listed(field.describe('What it is'))).toEqual({ ...schema, description: 'What it is' });
});

test('a choice between other types stays a choice', () => {
  const choice = z.union([z.string(), z.int()]);
  expect(listed(choice)).toEqual({ anyOf: [{ type: 'string' }, { type: 'integer' }] });
  expect(listed(choice.nullable())).toMatchObject({ anyOf: expect.any(Array) });
});
