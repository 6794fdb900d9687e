import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  endOfString,
  exactNumber,
  isInteger,
  numberOf,
  parseExactJson,
  parseJsonWithoutRounding,
} from './exact-json.ts';

describe('exact JSON', () => {
  test.each([
    '{"a":1.10,"b":12345678901234567890,"c":-0,"d":1E+2,"e":0.1000}',
    '[1,2.5,-3,1e21,9007199254740993]',
    '{"__proto__":{"a":1.0},"b":null,"c":"1.10","d":[true,[]]}',
  ])('%s is written as it was read', (text) => {
    expect(JSON.stringify(parseExactJson(text))).toBe(text);
  });

  test('reads as JSON.parse does, except numbers that a double writes in another way', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const written = JSON.stringify(parseExactJson(text));
        expect(JSON.parse(written)).toEqual(JSON.parse(text));
      }),
    );
  });

  test('returns the nearest double of either form, and undefined for other values', () => {
    expect([exactNumber('7'), exactNumber('7.0'), exactNumber('1e999')].map(numberOf)).toEqual([
      7,
      7,
      Number.POSITIVE_INFINITY,
    ]);
    for (const other of ['7', null, { rawJSON: '7' }]) expect(numberOf(other)).toBeUndefined();
  });

  test.each([
    '{"a":01}',
    '{1.10:2}',
    '{"a":1,1.10 :2,"a":3}',
    '[1.10.5]',
    '["a"1.10]',
    '[1.10"a"]',
    '[-]',
    '[1.]',
    '[.5]',
    '[1.10',
    '"1.10',
  ])('rejects a text that is not JSON: %s', (text) => {
    expect(() => parseExactJson(text)).toThrow(SyntaxError);
  });

  test('reads the same as a reviver, for any arrangement of pieces, valid JSON or not', () => {
    const piece = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '"a"',
      '\\',
      '1',
      '1.10',
      '-0',
      'e',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 9 }), (pieces) => {
        const text = pieces.join('');
        expect(orRefused(() => JSON.stringify(parseExactJson(text)))).toBe(
          orRefused(() => JSON.stringify(revived(text))),
        );
      }),
    );
  });
});

describe('integers', () => {
  const INTEGERS = [
    '0',
    '-0',
    '7',
    '7.0',
    '70e-1',
    '0.7e1',
    '9007199254740991.000',
    '0e-9',
    '1e400',
  ];
  const OTHERS = [
    '9007199254740991.4',
    '-4503599627370497.5',
    '1.00000000000000000001',
    '0.99999999999999999999',
    '10000000000000000000001e-22',
    '1e-400',
    '1.5',
  ];

  test('are recognised by their text, before a double rounds them', () => {
    expect(INTEGERS.filter((text) => isInteger(parseExactJson(text)))).toEqual(INTEGERS);
    expect(OTHERS.filter((text) => isInteger(parseExactJson(text)))).toEqual([]);
    for (const other of ['7', null, undefined, { rawJSON: '7' }, Number.NaN]) {
      expect(isInteger(other)).toBe(false);
    }
  });

  test('are never made from a fraction by the parser without rounding', () => {
    const rounded = OTHERS.filter((text) => text !== '1.5');
    const values = parseJsonWithoutRounding(`{"a":[${OTHERS.join()}]}`, rounded.length);
    expect(values).toEqual({ a: [...rounded.map(() => Number.NaN), 1.5] });
    expect(() => parseJsonWithoutRounding(`[${rounded.join()}]`, rounded.length - 1)).toThrow(
      RangeError,
    );
  });

  test('and all other values are read by this parser as by JSON.parse', () => {
    for (const text of INTEGERS) {
      expect(parseJsonWithoutRounding(text, 0)).toBe(JSON.parse(text));
    }
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(parseJsonWithoutRounding(text, 0)).toEqual(JSON.parse(text));
      }),
    );
  });
});

describe('the end of a string', () => {
  test('is its first quote that is not escaped, in strings of any length', () => {
    const piece = fc.constantFrom('a', '\\\\', '\\"', '\\u0041', '\u{1f4e6}', 'x'.repeat(40));
    fc.assert(
      fc.property(fc.array(piece), fc.string(), (pieces, rest) => {
        const string = `"${pieces.join('')}"`;
        expect(endOfString(`${string}${rest}`, 0)).toBe(string.length - 1);
        expect(endOfString(string.slice(0, -1), 0)).toBe(string.length - 1);
      }),
    );
  });
});

function orRefused(read: () => string): string {
  try {
    return read();
  } catch {
    return 'refused';
  }
}

/** The same with a reviver, which is too slow for the gateway. */
function revived(text: string): unknown {
  const json = JSON as unknown as { parse(text: string, reviver: Reviver): unknown };
  return json.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? exactNumber(source) : value,
  );
}

type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown;
