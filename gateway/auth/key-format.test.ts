import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { hashSecret, keyIdIn, newKey, parseKey } from './key-format.ts';

describe('API key', () => {
  test('has an id of 12 and a secret of 46 characters', () => {
    const { text, keyId, secret } = newKey();
    expect(text).toMatch(/^rms_[a-z0-9]{12}_[A-Za-z0-9]{46}$/);
    expect(text).toBe(`rms_${keyId}_${secret}`);
    expect(parseKey(text)).toEqual({ sandbox: false, keyId, secret });
  });

  test('of a sandbox begins with rms_test_', () => {
    const { text, keyId, secret } = newKey({ sandbox: true });
    expect(text).toMatch(/^rms_test_[a-z0-9]{12}_[A-Za-z0-9]{46}$/);
    expect(parseKey(text)).toEqual({ sandbox: true, keyId, secret });
    expect(keyIdIn(text)).toBe(keyId);
  });

  test('is no key of the other kind when its beginning is changed', () => {
    expect(parseKey(newKey({ sandbox: true }).text.replace('rms_test_', 'rms_'))).toBeUndefined();
    expect(parseKey(newKey().text.replace('rms_', 'rms_test_'))).toBeUndefined();
  });

  test('is always another one', () => {
    const keys = new Set(Array.from({ length: 200 }, () => newKey().text));
    expect(keys.size).toBe(200);
  });

  test('with one wrong character is rejected without a database', () => {
    const { text } = newKey();
    const positions = fc.integer({ min: 4, max: text.length - 1 });
    const characters = fc.constantFrom(...'abcdefgh0123456789');
    fc.assert(
      fc.property(positions, characters, (at, character) => {
        const typo = `${text.slice(0, at)}${character}${text.slice(at + 1)}`;
        return typo === text || parseKey(typo) === undefined;
      }),
    );
  });

  test('never throws on hostile text', () => {
    fc.assert(fc.property(fc.string(), (text) => parseKey(text) === undefined));
  });

  test('only a hash of 32 bytes is stored', () => {
    expect(hashSecret(newKey().secret)).toHaveLength(32);
  });
});
