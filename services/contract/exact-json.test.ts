import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { exactNumber, numberOf, parseExactJson } from './exact-json.ts';

describe('exact JSON', () => {
  test.each([
    '{"a":1.10,"b":12345678901234567890,"c":-0,"d":1E+2,"e":0.1000}',
    '[1,2.5,-3,1e21,9007199254740993]',
    '{"__proto__":{"a":1.0},"b":null,"c":"1.10","d":[true,[]]}',
  ])('%s is written as it was read', (text) => {
    expect(JSON.stringify(parseExactJson(text))).toBe(text);
  });

  test('reads as ordinary JSON does, but for numbers that a double writes in another way', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const written = JSON.stringify(parseExactJson(text));
        expect(JSON.parse(written)).toEqual(JSON.parse(text));
      }),
    );
  });

  test('tells the nearest double of either form, and of nothing else', () => {
    expect([exactNumber('7'), exactNumber('7.0'), exactNumber('1e999')].map(numberOf)).toEqual([
      7,
      7,
      Number.POSITIVE_INFINITY,
    ]);
    for (const other of ['7', null, { rawJSON: '7' }]) expect(numberOf(other)).toBeUndefined();
  });

  test('refuses what is no JSON', () => {
    expect(() => parseExactJson('{"a":01}')).toThrow(SyntaxError);
  });
});
