import { describe, expect, test } from '@jest/globals';
import { gatewayShape } from '../../gateway/config.ts';
import { ConfigError, loadConfig, postgresUrl, serviceShape } from './config.ts';

/** Names of the variables that a process refuses. */
function refused(shape: Parameters<typeof loadConfig>[0], env: Record<string, string>): string[] {
  try {
    loadConfig(shape, env);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const about = /^(DATABASE_URL|KAFKA_TLS|GRPC_TLS_\w+)/;
    return error.faults.flatMap((fault) => about.exec(fault)?.[0] ?? []);
  }
}

const PLAIN = { DATABASE_URL: 'postgres://rms@db:5432/rms' };
const VERIFIED = { DATABASE_URL: `${PLAIN.DATABASE_URL}?sslmode=verify-full` };
const CERTIFICATES = {
  GRPC_TLS_CA_FILE: '/ca.crt',
  GRPC_TLS_CERT_FILE: '/tls.crt',
  GRPC_TLS_KEY_FILE: '/tls.key',
};
const production = { NODE_ENV: 'production' };
const migrator = { DATABASE_URL: postgresUrl };

describe('production', () => {
  test('refuses a plain database in every process', () => {
    for (const shape of [serviceShape, gatewayShape, migrator]) {
      expect(refused(shape, { ...production, ...CERTIFICATES, ...PLAIN })).toContain(
        'DATABASE_URL',
      );
    }
    expect(refused(migrator, { ...production, ...VERIFIED })).toEqual([]);
  });

  test.each(['disable', 'prefer', 'require', 'verify-ca', 'verify-full&sslmode=disable', ''])(
    'refuses sslmode=%s',
    (mode) => {
      const url = `${PLAIN.DATABASE_URL}?sslmode=${mode}`;
      expect(refused(migrator, { ...production, DATABASE_URL: url })).toEqual(['DATABASE_URL']);
    },
  );

  test('refuses plain gRPC', () => {
    for (const shape of [serviceShape, gatewayShape]) {
      expect(refused(shape, { ...production, ...VERIFIED })).toContain('GRPC_TLS_CA_FILE');
    }
    expect(refused(gatewayShape, { ...production, ...VERIFIED, GRPC_TLS_CA_FILE: '/ca' })).toEqual(
      [],
    );
  });

  test('takes all of it where a mesh encrypts', () => {
    for (const shape of [serviceShape, gatewayShape, migrator]) {
      expect(refused(shape, { ...production, ...PLAIN, TRANSPORT_SECURITY: 'mesh' })).toEqual([]);
    }
  });
});

test('development takes plain connections', () => {
  for (const shape of [serviceShape, gatewayShape, migrator]) {
    expect(refused(shape, PLAIN)).toEqual([]);
  }
});

test('certificates are complete or absent, everywhere', () => {
  const { GRPC_TLS_CA_FILE, GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE } = CERTIFICATES;
  const ofService = (env: Record<string, string>) => refused(serviceShape, { ...PLAIN, ...env });
  expect(ofService(CERTIFICATES)).toEqual([]);
  expect(ofService({ GRPC_TLS_CA_FILE })).toEqual(['GRPC_TLS_CERT_FILE']);
  expect(ofService({ GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE })).toEqual(['GRPC_TLS_CA_FILE']);
  expect(ofService({ GRPC_TLS_CA_FILE, GRPC_TLS_CERT_FILE })).toEqual(['GRPC_TLS_CERT_FILE']);
  // A caller needs no certificate of its own, unless servers ask for one.
  expect(refused(gatewayShape, { ...PLAIN, GRPC_TLS_CA_FILE })).toEqual([]);
});
