import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { readArguments } from './arguments.ts';

const schema = z.strictObject({
  id: z.int({ error: 'is required' }),
  note: z.string().optional(),
  limit: z.int().default(20),
  items: z.array(z.strictObject({ id: z.int(), note: z.string().optional() })).optional(),
  details: z.record(z.string(), z.union([z.string(), z.null()])).optional(),
});

describe('arguments of a tool', () => {
  test('null counts as absent for optional fields, at every depth', () => {
    const given = { id: 1, note: null, limit: null, items: [{ id: 2, note: null }] };
    const value = { id: 1, limit: 20, items: [{ id: 2 }] };
    expect(readArguments(schema, given)).toEqual({ ok: true, value });
  });

  test('null is kept where it is a valid value', () => {
    const given = { id: 1, details: { gift: null } };
    expect(readArguments(schema, given)).toMatchObject({ ok: true, value: given });
  });

  test.each<object>([
    { id: null },
    { id: 1, colour: null },
    { id: 1, items: [null] },
    { id: 1, constructor: null },
  ])('null is rejected for required fields: %j', (given) => {
    expect(readArguments(schema, given).ok).toBe(false);
  });
});
