import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { ErrorReason, ErrorReasonSchema } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { enumText } from './enum-text.ts';
import { DomainError } from './errors.ts';
import { id, parseInput, requiredText, text, time } from './input.ts';
import { bindCursor, placeInCursor } from './list-cursor.ts';

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

const { toText, fromText } = enumText(ErrorReasonSchema);

test('a value is stored as its name without the prefix, in lower case', () => {
  expect(toText(ErrorReason.RETURN_NOT_FOUND)).toBe('return_not_found');
  expect(fromText('return_not_found')).toBe(ErrorReason.RETURN_NOT_FOUND);
});

test('every value except unspecified converts there and back', () => {
  for (const { name, number } of ErrorReasonSchema.values.filter((value) => value.number !== 0)) {
    const text = name.replace('ERROR_REASON_', '').toLowerCase();
    expect(fromText(text)).toBe(number);
    expect(toText(fromText(text))).toBe(text);
  }
});

test('unknown texts and numbers are rejected', () => {
  expect(() => toText(ErrorReason.UNSPECIFIED)).toThrow(RangeError);
  expect(() => fromText('unspecified')).toThrow(RangeError);
  expect(() => fromText('RETURN_NOT_FOUND')).toThrow(RangeError);
});

const PLACE = 'WyIxIiwiMiJd';
const at = new Date('2026-11-20T10:00:00Z');
const filters = { shopId: 7n, states: [1, 2], query: '#1001', from: at, isFlagged: true };

describe('a cursor', () => {
  test('returns its place in the list that it was made for', () => {
    const cursor = bindCursor(PLACE, filters);
    expect(cursor).toMatch(/^WyIxIiwiMiJd\.[\w-]{11}$/);
    expect(placeInCursor(cursor, filters)).toBe(PLACE);
  });

  test.each([
    ['the order and repetition of values', { states: [2, 1, 1] }],
    [
      'filters that select nothing',
      { to: undefined, sku: '', outcomes: [], returnId: 0n, sent: false },
    ],
    ['equal times', { from: new Date(at) }],
  ])('ignores %s', (_, same) => {
    const cursor = bindCursor(PLACE, filters);
    expect(placeInCursor(cursor, { ...filters, ...same })).toBe(PLACE);
  });

  test.each([
    ['another shop', { shopId: 8n }],
    ['another state', { states: [1] }],
    ['another text', { query: '#1002' }],
    ['another time', { from: new Date(at.getTime() + 1) }],
    ['one filter less', { isFlagged: false }],
    ['one filter more', { sku: 'x' }],
  ])('is rejected with %s', (_, other) => {
    const cursor = bindCursor(PLACE, filters);
    expect(() => placeInCursor(cursor, { ...filters, ...other })).toThrow(
      'cursor belongs to a list with other filters or another order: repeat those, or start without cursor',
    );
  });

  test('of the last page is empty, and starts the list', () => {
    expect(bindCursor('', filters)).toBe('');
    expect(placeInCursor('', filters)).toBe('');
  });

  test('without a mark is rejected', () => {
    expect(() => placeInCursor(PLACE, filters)).toThrow('cursor must be a cursor');
  });
});
