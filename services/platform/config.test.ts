import { describe, expect, test } from '@jest/globals';
import { ConfigError, flag, list, loadConfig, serviceShape, wholeNumber } from './config.ts';
import { newKeyringText } from './keyring.ts';

const complete = {
  DATABASE_URL: 'postgres://rms_returns:secret@db:5432/rms',
  KAFKA_BROKERS: 'a:9092, b:9092,',
  EVENT_KEYRING: newKeyringText(),
  SERVICE_TOKEN: 'x'.repeat(32),
};

function problemsOf(env: Record<string, string>): string {
  try {
    loadConfig(serviceShape, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return '';
}

describe('configuration', () => {
  test('a complete environment is parsed, with defaults for the rest', () => {
    expect(loadConfig(serviceShape, complete)).toMatchObject({
      PORT: 8080,
      HOST: '127.0.0.1',
      KAFKA_BROKERS: ['a:9092', 'b:9092'],
      SERVICE_AUTH: 'static',
      LOG_PRETTY: false,
      MAX_CALLS_IN_FLIGHT: 512,
      RETENTION_DAYS: 7,
      EVENT_SIGNATURES: 'required',
    });
  });

  test('one message lists all invalid variables with their expected form', () => {
    const message = problemsOf({ PORT: '70000', LOG_LEVEL: 'loud', DATABASE_URL: 'mysql://x' });
    expect(message).toContain('PORT: must be a whole number from 0 to 65535');
    expect(message).toContain('LOG_LEVEL: must be one of fatal, error');
    expect(message).toContain('DATABASE_URL: must be postgres://');
    expect(message).toContain('KAFKA_BROKERS is missing');
    expect(message).toContain('SERVICE_TOKEN is missing');
  });

  test('values are not repeated in the message, because they may be secrets', () => {
    expect(problemsOf({ ...complete, SERVICE_TOKEN: 'short-secret' })).toContain('at least 32');
    expect(problemsOf({ ...complete, SERVICE_TOKEN: 'short-secret' })).not.toContain(
      'short-secret',
    );
  });

  test('an empty variable counts as unset', () => {
    expect(loadConfig(serviceShape, { ...complete, PORT: '' }).PORT).toBe(8080);
    expect(problemsOf({ ...complete, DATABASE_URL: '' })).toContain('DATABASE_URL is missing');
  });

  test.each(['1.5', '-1', '1e3', ' 1', '0x10', 'abc'])('%j is not a whole number', (text) => {
    expect(() => loadConfig({ N: wholeNumber(0, 9_999) }, { N: text })).toThrow('N: must be');
  });

  test('flags and lists', () => {
    expect(loadConfig({ F: flag, L: list }, { F: 'true', L: 'a, ,b' })).toEqual({
      F: true,
      L: ['a', 'b'],
    });
    expect(() => loadConfig({ F: flag }, { F: 'yes' })).toThrow('F: must be true or false');
  });

  describe('service identity', () => {
    test('production rejects the static token, also by default', () => {
      const expected = 'SERVICE_AUTH: production allows kubernetes only';
      expect(problemsOf({ ...complete, NODE_ENV: 'production' })).toContain(expected);
      expect(problemsOf({ ...complete, NODE_ENV: 'production', SERVICE_AUTH: 'static' })).toContain(
        expected,
      );
    });

    test('service accounts have their namespace, internal ones also their caller', () => {
      const load = (more: object) => loadConfig(serviceShape, { ...complete, ...more });
      const callers = 'system:serviceaccount:logistics:post=labels';
      expect(load({ SERVICE_CALLERS: callers }).SERVICE_CALLERS).toEqual(
        new Map([['system:serviceaccount:logistics:post', 'labels']]),
      );
      for (const subject of [
        '*',
        'system:serviceaccount:*',
        'system:serviceaccount:rms*:gateway',
      ]) {
        expect(() => load({ SERVICE_SUBJECTS: subject })).toThrow('SERVICE_SUBJECTS: must be');
      }
      // No configuration turns an internal service into the gateway.
      for (const role of ['gateway', 'nobody', '']) {
        const value = `system:serviceaccount:logistics:post=${role}`;
        expect(() => load({ SERVICE_CALLERS: value })).toThrow('SERVICE_CALLERS: must be');
      }
    });

    test('SERVICE_AUTH=kubernetes reports every missing setting, and needs no SERVICE_TOKEN', () => {
      const env = { ...complete, SERVICE_TOKEN: '', SERVICE_AUTH: 'kubernetes' };
      expect(problemsOf(env)).toContain('SERVICE_TOKEN_FILE is missing');
      expect(problemsOf(env)).toContain('SERVICE_JWKS_FILE is missing');
      expect(problemsOf(env)).toContain('SERVICE_ISSUER is missing');
      expect(problemsOf(env)).toContain('SERVICE_SUBJECTS is missing');
      const full = {
        SERVICE_TOKEN_FILE: '/t',
        SERVICE_JWKS_FILE: '/j',
        SERVICE_ISSUER: 'https://issuer',
        SERVICE_SUBJECTS: 'system:serviceaccount:rms:*',
        NODE_ENV: 'production',
        TRANSPORT_SECURITY: 'mesh',
      };
      expect(problemsOf({ ...env, ...full })).toBe('');
    });
  });
});
