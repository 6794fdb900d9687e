import { expect, test } from '@jest/globals';
import { ErrorReason, ErrorReasonSchema } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { enumText } from './enum-text.ts';

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
