import { Code } from '@connectrpc/connect';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { CURRENCIES, decimalsOf } from './currencies.ts';
import { DomainError } from './errors.ts';
import { formatAmount, minorOf, parseAmount } from './money.ts';

const currency = fc.constantFrom('JPY', 'GBP', 'EUR', 'BHD', 'CLF', 'HUF');
const minor = fc.bigInt({ min: 0n, max: 10n ** 12n });

describe('money', () => {
  test('has the decimals of ISO 4217', () => {
    expect(['JPY', 'GBP', 'HUF', 'BHD', 'CLF'].map(decimalsOf)).toEqual([0, 2, 2, 3, 4]);
    expect(['gbp', 'GB', 'ZZZ', ''].map(decimalsOf)).toEqual(Array(4).fill(undefined));
  });

  test('knows the currencies of 2025, and those that orders from the past have', () => {
    expect(['XCG', 'ZWG', 'SLE', 'VED'].map((code) => CURRENCIES.current.get(code))).toEqual(
      Array(4).fill(2),
    );
    for (const code of ['ANG', 'HRK', 'BGN']) expect(CURRENCIES.current.has(code)).toBe(false);
    expect(['ANG', 'HRK', 'BGN', 'BYR'].map(decimalsOf)).toEqual([2, 2, 2, 0]);
    expect([minorOf('1.5', 'BGN'), formatAmount(150n, 'ANG')]).toEqual([150n, '1.50']);
  });

  test('has a list of currencies that was compared with ISO 4217 within a year', () => {
    const ageDays = (Date.now() - Date.parse(CURRENCIES.read)) / 86_400_000;
    // Get the newest list one of ISO 4217, and run services/platform/values/write-currencies.ts with it.
    expect(ageDays).toBeLessThan(366);
    expect(CURRENCIES.read >= CURRENCIES.published).toBe(true);
    expect(CURRENCIES.current.size).toBeGreaterThan(170);
  });

  test('reads what it wrote, to the last minor unit', () => {
    fc.assert(
      fc.property(currency, minor, (code, value) => {
        const text = formatAmount(value, code);
        expect(parseAmount('x', text, code)).toBe(value);
        expect(minorOf(text, code)).toBe(value);
        expect(text.split('.')[1]?.length ?? 0).toBe(decimalsOf(code));
      }),
    );
  });

  test('reads a stored amount with or without trailing zeros alike', () => {
    expect([minorOf('12.5', 'GBP'), minorOf('12.5000', 'GBP'), minorOf('12', 'GBP')]).toEqual([
      1250n,
      1250n,
      1200n,
    ]);
  });

  test('never rounds: more decimals than the currency has are rejected', () => {
    fc.assert(
      fc.property(currency, minor, fc.integer({ min: 0, max: 9 }), (code, value, digit) => {
        const whole = formatAmount(value, code);
        const text = `${whole}${whole.includes('.') ? '' : '.'}${digit}`;
        expect(() => parseAmount('price', text, code)).toThrow(DomainError);
      }),
    );
  });

  test.each(['', '-1', '+1', '1e3', ' 1', '1,5', '.5', '1.', '٣', '0x1', 'NaN', '1000000000001'])(
    'rejects %j by the name of the field',
    (text) => {
      try {
        parseAmount('lines[0].price', text, 'GBP');
        expect('refused').toBe('taken');
      } catch (error) {
        expect(error).toMatchObject({ code: Code.InvalidArgument, field: 'lines[0].price' });
      }
    },
  );

  test('writes negative sums with a sign', () => {
    expect([formatAmount(-5n, 'GBP'), formatAmount(-5n, 'JPY')]).toEqual(['-0.05', '-5']);
  });
});
