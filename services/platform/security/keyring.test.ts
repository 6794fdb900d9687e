import { describe, expect, test } from '@jest/globals';
import { newKeyringText, parseKeyring } from './keyring.ts';

describe('the keyring', () => {
  test('decrypts what it encrypted, and only in the same context', () => {
    const keyring = parseKeyring(newKeyringText());
    const { keyId, encrypted } = keyring.encrypt('whsec_x', '1:2');
    expect(Buffer.from(encrypted).toString('latin1')).not.toContain('whsec_x');
    expect(keyring.decrypt(keyId, encrypted, '1:2')).toBe('whsec_x');
    expect(() => keyring.decrypt(keyId, encrypted, '1:3')).toThrow();
    const forged = Buffer.from(encrypted);
    forged.writeUInt8(forged.readUInt8(forged.length - 1) ^ 1, forged.length - 1);
    expect(() => keyring.decrypt(keyId, forged, '1:2')).toThrow();
  });

  test('encrypts with its first key and still decrypts with the old ones', () => {
    const [old, fresh] = [newKeyringText('old'), newKeyringText('new')];
    const { keyId, encrypted } = parseKeyring(old).encrypt('whsec_x', '1:2');
    const both = parseKeyring(`${fresh},${old}`);
    expect(both.decrypt(keyId, encrypted, '1:2')).toBe('whsec_x');
    expect(both.encrypt('whsec_y', '1:2').keyId).toBe('new');
    expect(() => parseKeyring(fresh).decrypt(keyId, encrypted, '1:2')).toThrow('no key "old"');
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
