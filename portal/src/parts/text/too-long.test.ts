import { expect, test } from '@jest/globals';
import { tooLong } from './too-long.ts';

test('a text is too long by its Unicode characters, without space around it', () => {
  expect(tooLong(` ${'\u{1f4e6}'.repeat(200)} `, 200)).toBeUndefined();
  expect(tooLong('x'.repeat(201), 200)).toBe(
    'It has 201 characters. At most 200 are possible: shorten it.',
  );
});
