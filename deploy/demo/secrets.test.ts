import { describe, expect, test } from '@jest/globals';
import { parseKey } from '../../gateway/auth/key-format.ts';
import { demoSecret } from './config.ts';

describe('the secrets of the demo', () => {
  test('are valid API keys, and the same at each call', () => {
    expect(parseKey(demoSecret('key:1:all'))).toBeDefined();
    expect(demoSecret('key:1:all')).toBe(demoSecret('key:1:all'));
    expect(demoSecret('key:1:all')).not.toBe(demoSecret('key:2:all'));
  });

  test('are passwords that a person can type', () => {
    expect(demoSecret('password:owner')).toBe('dev-only-owner');
  });
});
