import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { DomainError } from './errors.ts';
import { id, parseInput, requiredText, text, time } from './input.ts';

function refused(schema: z.ZodType, message: unknown) {
  try {
    parseInput(schema, message);
  } catch (error) {
    if (error instanceof DomainError)
      return { field: error.field, message: error.message, code: error.code };
    throw error;
  }
  throw new Error('not refused');
}

describe('parse input', () => {
  test('names the field as in the proto', () => {
    const schema = z.object({ lineItems: z.array(z.object({ lineItemId: id })) });
    expect(refused(schema, { lineItems: [{ lineItemId: 1n }, { lineItemId: 0n }] })).toEqual({
      field: 'line_items[1].line_item_id',
      message: 'line_items[1].line_item_id must be an id from 1 to 2^53-1',
      code: Code.InvalidArgument,
    });
  });

  test('removes unknown fields', () => {
    expect(parseInput(z.object({ id }), { id: 1n, other: 2 })).toEqual({ id: 1n });
  });
});

describe('text', () => {
  test.each(['\ud800', 'a\udc00b', '\0'])('rejects %j', (value) => {
    expect(refused(z.object({ note: text(9) }), { note: value }).field).toBe('note');
  });

  test('counts Unicode characters', () => {
    expect(parseInput(text(2), '\u{1f4e6}\u{1f4e6}')).toHaveLength(4);
    expect(refused(text(2), 'abc').message).toContain('at most 2 characters');
  });

  test('treats white space as missing when the text is required', () => {
    expect(refused(z.object({ name: requiredText(9) }), { name: ' \u2003' }).message).toBe(
      'name is required',
    );
  });
});

describe('time', () => {
  test('is truncated to milliseconds', () => {
    const seconds = -1n;
    expect(parseInput(time, { seconds, nanos: 999_999_999 })).toEqual(new Date(-1));
  });

  test.each([
    ['0001-01-01T00:00:00.000Z', 0],
    ['9999-12-31T23:59:59.999Z', 1],
  ])('reaches to %s', (end, sign) => {
    const last = timestampFromDate(new Date(end));
    expect(parseInput(time, last).toISOString()).toBe(end);
    const beyond = { ...last, seconds: last.seconds + (sign ? 1n : -1n) };
    expect(refused(z.object({ at: time }), { at: beyond }).field).toBe('at');
  });
});
