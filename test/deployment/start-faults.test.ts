import { describe, expect, test } from '@jest/globals';
import { SERVICE_NAMES, targetVariable } from '../../services/platform/services.ts';
import { startNode } from '../kit/process.ts';

const identity = { SERVICE_TOKEN: 'token-of-at-least-32-characters-00' };

async function failed(file: string, env: Record<string, string>): Promise<string> {
  const started = startNode({ args: [file], env });
  expect(await started.exited).toEqual({ code: 1, signal: null });
  return started.output();
}

describe('a process with an invalid environment', () => {
  test('names every invalid variable of the gateway in one message and exits with 1', async () => {
    const said = await failed('gateway/main.ts', {
      ...identity,
      PORT: 'ninety',
      DATABASE_URL: 'mysql://somewhere',
      LOG_LEVEL: 'loud',
      RETURNS_TARGET: '127.0.0.1:9001',
    });
    const missing = SERVICE_NAMES.filter((name) => name !== 'returns');
    const faults = said.trimEnd().split('\n').slice(1);
    expect(said).toMatch(/^gateway: invalid configuration\n/);
    expect(faults.map((fault) => fault.trim().split(/[: ]/)[0])).toEqual(
      ['DATABASE_URL', 'LOG_LEVEL', 'PORT', ...missing.map(targetVariable)].toSorted(),
    );
  });

  test('repeats no value, because it may be a secret', async () => {
    const said = await failed('services/webhooks/main.ts', {
      SERVICE_TOKEN: 'too-short',
      WEBHOOK_KEYRING: 'k1:not-a-key',
      DATABASE_URL: 'password-only',
    });
    expect(said).toContain('WEBHOOK_KEYRING');
    expect(said).not.toMatch(/too-short|not-a-key|password-only/);
  });

  test('says which variables are missing when production requires another identity', async () => {
    const said = await failed('services/carts/main.ts', {
      ...identity,
      NODE_ENV: 'production',
      DATABASE_URL: 'postgres://rms_carts@127.0.0.1/rms',
      KAFKA_BROKERS: '127.0.0.1:9092',
    });
    expect(said).toMatch(/SERVICE_AUTH: production allows kubernetes only/);
  });

  test('a migration without a database URL says so and exits with 1', async () => {
    const said = await failed('services/platform/postgres/migrate.ts', {});
    expect(said).toMatch(/^migrate: /);
    expect(said).toContain('DATABASE_URL');
  });
});
