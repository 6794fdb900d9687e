import { describe, expect, test } from '@jest/globals';
import { newKeyringText, parseKeyring } from './keyring.ts';

describe('the keyring', () => {
  test('opens what it sealed, and only in the same place', () => {
    const keyring = parseKeyring(newKeyringText());
    const { keyId, sealed } = keyring.seal('whsec_x', '1:2');
    expect(Buffer.from(sealed).toString('latin1')).not.toContain('whsec_x');
    expect(keyring.open(keyId, sealed, '1:2')).toBe('whsec_x');
    expect(() => keyring.open(keyId, sealed, '1:3')).toThrow();
    const forged = Buffer.from(sealed);
    forged.writeUInt8(forged.readUInt8(forged.length - 1) ^ 1, forged.length - 1);
    expect(() => keyring.open(keyId, forged, '1:2')).toThrow();
  });

  test('seals with its first key and goes on opening with the old ones', () => {
    const [old, fresh] = [newKeyringText('old'), newKeyringText('new')];
    const { keyId, sealed } = parseKeyring(old).seal('whsec_x', '1:2');
    const both = parseKeyring(`${fresh},${old}`);
    expect(both.open(keyId, sealed, '1:2')).toBe('whsec_x');
    expect(both.seal('whsec_y', '1:2').keyId).toBe('new');
    expect(() => parseKeyring(fresh).open(keyId, sealed, '1:2')).toThrow('no key "old"');
  });

  test.each([
    '',
    'k1',
    'k1:abc',
    `k1:${'A'.repeat(44)}`,
    `${newKeyringText()},${newKeyringText()}`,
  ])('refuses a malformed text', (text) =>
    expect(() => parseKeyring(text)).toThrow('a keyring is'),
  );
});
