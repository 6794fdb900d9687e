import { describe, expect, test } from '@jest/globals';
import { gatewayShape } from '../../../gateway/config.ts';
import { ConfigError, loadConfig, postgresUrl, serviceShape } from '../process/config.ts';

/** Names of the variables that a process rejects. */
function refused(shape: Parameters<typeof loadConfig>[0], env: Record<string, string>): string[] {
  try {
    loadConfig(shape, env);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const about = /^(DATABASE_URL|KAFKA_(?:TLS|SASL)\w*|GRPC_TLS_\w+)/;
    return error.problems.flatMap((problem) => about.exec(problem)?.[0] ?? []);
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
  test('rejects a database without TLS in every process', () => {
    for (const shape of [serviceShape, gatewayShape, migrator]) {
      expect(refused(shape, { ...production, ...CERTIFICATES, ...PLAIN })).toContain(
        'DATABASE_URL',
      );
    }
    expect(refused(migrator, { ...production, ...VERIFIED })).toEqual([]);
  });

  test.each(['disable', 'prefer', 'require', 'verify-ca', 'verify-full&sslmode=disable', ''])(
    'rejects sslmode=%s',
    (mode) => {
      const url = `${PLAIN.DATABASE_URL}?sslmode=${mode}`;
      expect(refused(migrator, { ...production, DATABASE_URL: url })).toEqual(['DATABASE_URL']);
    },
  );

  test('rejects gRPC without TLS', () => {
    for (const shape of [serviceShape, gatewayShape]) {
      expect(refused(shape, { ...production, ...VERIFIED })).toContain('GRPC_TLS_CA_FILE');
    }
    expect(refused(gatewayShape, { ...production, ...VERIFIED, GRPC_TLS_CA_FILE: '/ca' })).toEqual(
      [],
    );
  });

  test('rejects Kafka without TLS, and a token endpoint without TLS', () => {
    const env = { ...production, ...CERTIFICATES, ...VERIFIED };
    expect(refused(serviceShape, env)).toEqual(['KAFKA_TLS']);
    expect(refused(serviceShape, { ...env, KAFKA_TLS: 'false' })).toEqual(['KAFKA_TLS']);
    const encrypted = { ...env, KAFKA_TLS: 'true' };
    expect(refused(serviceShape, encrypted)).toEqual([]);
    const oauth = {
      KAFKA_SASL_MECHANISM: 'oauthbearer',
      KAFKA_SASL_USERNAME: 'rms',
      KAFKA_SASL_PASSWORD: 'secret',
      KAFKA_SASL_TOKEN_URL: 'http://issuer/token',
    };
    expect(refused(serviceShape, { ...encrypted, ...oauth })).toEqual(['KAFKA_SASL_TOKEN_URL']);
  });

  test('accepts all of it behind an encrypting mesh', () => {
    for (const shape of [serviceShape, gatewayShape, migrator]) {
      expect(refused(shape, { ...production, ...PLAIN, TRANSPORT_SECURITY: 'mesh' })).toEqual([]);
    }
    const twice = { ...production, ...PLAIN, ...CERTIFICATES, TRANSPORT_SECURITY: 'mesh' };
    expect(refused(serviceShape, twice)).toEqual(['GRPC_TLS_CA_FILE']);
  });
});

test('development accepts connections without TLS', () => {
  for (const shape of [serviceShape, gatewayShape, migrator]) {
    expect(refused(shape, PLAIN)).toEqual([]);
  }
});

test('a Kafka login has all variables that it needs, and no unused ones', () => {
  const ofService = (env: Record<string, string>) => refused(serviceShape, { ...PLAIN, ...env });
  const scram = { KAFKA_SASL_MECHANISM: 'scram-sha-512', KAFKA_SASL_USERNAME: 'rms' };
  expect(ofService({ ...scram, KAFKA_SASL_PASSWORD: 'x' })).toEqual([]);
  expect(ofService({ ...scram, KAFKA_SASL_PASSWORD_FILE: '/x' })).toEqual([]);
  expect(ofService(scram)).toEqual(['KAFKA_SASL_PASSWORD']);
  expect(ofService({ KAFKA_SASL_MECHANISM: 'plain' })).toEqual([
    'KAFKA_SASL_PASSWORD',
    'KAFKA_SASL_USERNAME',
  ]);
  const oauth = { KAFKA_SASL_MECHANISM: 'oauthbearer' };
  expect(ofService({ ...oauth, KAFKA_SASL_TOKEN_FILE: '/x' })).toEqual([]);
  expect(ofService(oauth)).toHaveLength(3);
  expect(ofService({ KAFKA_SASL_PASSWORD: 'x' })).toEqual(['KAFKA_SASL_PASSWORD']);
  expect(ofService({ KAFKA_TLS_CA_FILE: '/x' })).toEqual(['KAFKA_TLS_CA_FILE']);
  expect(ofService({ KAFKA_TLS: 'true', KAFKA_TLS_CERT_FILE: '/x' })).toEqual([
    'KAFKA_TLS_CERT_FILE',
  ]);
});

test('certificates are complete or absent, everywhere', () => {
  const { GRPC_TLS_CA_FILE, GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE } = CERTIFICATES;
  const ofService = (env: Record<string, string>) => refused(serviceShape, { ...PLAIN, ...env });
  expect(ofService(CERTIFICATES)).toEqual([]);
  expect(ofService({ GRPC_TLS_CA_FILE })).toEqual(['GRPC_TLS_CERT_FILE']);
  expect(ofService({ GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE })).toEqual(['GRPC_TLS_CA_FILE']);
  expect(ofService({ GRPC_TLS_CA_FILE, GRPC_TLS_CERT_FILE })).toEqual(['GRPC_TLS_CERT_FILE']);
  // A caller needs no certificate of its own, unless servers require one.
  expect(refused(gatewayShape, { ...PLAIN, GRPC_TLS_CA_FILE })).toEqual([]);
});
