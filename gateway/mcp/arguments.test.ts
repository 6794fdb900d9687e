import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { parseArguments } from './arguments.ts';

const schema = z.strictObject({
  id: z.int({ error: 'is required' }),
  note: z.string().optional(),
  limit: z.int().default(20),
  items: z.array(z.strictObject({ id: z.int(), note: z.string().optional() })).optional(),
  details: z.record(z.string(), z.union([z.string(), z.null()])).optional(),
});

describe('arguments of a tool', () => {
  test('null counts as absent for optional fields, at every depth', () => {
    const args = { id: 1, note: null, limit: null, items: [{ id: 2, note: null }] };
    const value = { id: 1, limit: 20, items: [{ id: 2 }] };
    expect(parseArguments(schema, args)).toEqual({ ok: true, value });
  });

  test('null stays where it is a valid value', () => {
    const args = { id: 1, details: { gift: null } };
    expect(parseArguments(schema, args)).toMatchObject({ ok: true, value: args });
  });

  test.each<object>([
    { id: null },
    { id: 1, colour: null },
    { id: 1, items: [null] },
    { id: 1, constructor: null },
  ])('null is rejected for required fields: %j', (args) => {
    expect(parseArguments(schema, args).ok).toBe(false);
  });
});
