import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { blank, characters, cleanText, fits, isBase64, nameProblem, normalForm } from './text.ts';

describe('text length', () => {
  test('counts Unicode characters, not UTF-16 units', () => {
    expect(characters('a\u{1f4e6}é')).toBe(3);
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(characters(text)).toBe([...text].length);
      }),
    );
  });

  test('fits exactly up to the maximum', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.nat(30), (text, max) => {
        expect(fits(text, max)).toBe([...text].length <= max);
      }),
    );
  });
});

describe('text rules', () => {
  test.each(['', 'ü', '\u{1f4e6}', '\t\n\u0001'])('%j is clean', (text) => {
    expect(cleanText(text)).toBe(true);
  });

  test.each(['a\0', '\ud83d', '\udce6', '\udce6\ud83d'])('%j is not clean', (text) => {
    expect(cleanText(text)).toBe(false);
  });

  test('only white space is blank', () => {
    expect([' \t\n\u00a0\u2003', ''].every(blank)).toBe(true);
    expect(blank(' x ')).toBe(false);
  });
});

describe('the normal form', () => {
  test.each([
    ['C1 ', 'C1'],
    ['\u00a0C1\t', 'C1'],
    ['Cafe\u0301', 'Caf\u00e9'],
    ['C  1', 'C  1'],
    ['c1', 'c1'],
  ])('of %j is %j', (text, normal) => {
    expect(normalForm(text)).toBe(normal);
    expect(normalForm(normal)).toBe(normal);
  });
});

describe('Base64', () => {
  test('accepts everything that Node writes, padded or not', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const text = Buffer.from(bytes).toString('base64');
        expect(isBase64(text)).toBe(true);
        expect(isBase64(text.replaceAll('=', ''))).toBe(true);
      }),
    );
  });

  test.each(['a', 'abcde', 'ab=', 'ab===', 'a b=', 'ab-_', 'ab=c', '====', 'YQ==\n'])(
    'refuses %j',
    (text) => {
      expect(isBase64(text)).toBe(false);
    },
  );
});

describe('a name that people read', () => {
  test.each([
    'Ada Lovelace',
    'Zoë’s Hüte & Co. (GmbH)',
    'Иван Петров',
    '東京スーパー Tokyo',
    'Ελλάδα Mugs',
    'نیم\u200Cفاصله',
    'क्\u200Dष',
    'র\u200D্যাচেল',
    'അവന്\u200D',
    'Detective 🕵\u200D♂',
    'Family 👨‍👩‍👧 shop 🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}',
  ])('may be %s', (name) => {
    expect(nameProblem(name)).toBeUndefined();
  });

  test.each([
    ['a right-to-left override', 'Ada \u202Egnp.exe'],
    ['an isolate', 'Ada\u2066'],
    ['a zero width space', 'A\u200Bda'],
    ['a joiner that joins nothing', 'Ada\u200D'],
    ['a joiner between Latin letters', 'Pay\u200CPal'],
    ['an ignored mark', 'Ada\u034F'],
    ['a variation of nothing', 'Ada\uFE0F'],
    ['letters of mathematics', '\u{1D40F}ay'],
    ['a soft hyphen', 'A\u00ADda'],
    ['a blank letter', 'Ada\u3164'],
    ['a line break', 'Ada\nBo'],
    ['a Cyrillic letter in a Latin word', 'P\u0430yPal'],
    ['a Greek letter in a Latin word', '\u039Fpen'],
  ])('may not have %s', (_what, name) => {
    expect(nameProblem(name)).toMatch(/^must not /);
  });
});
