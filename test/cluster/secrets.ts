import { randomBytes } from 'node:crypto';
import { newKeyringText } from '../../services/platform/security/keyring.ts';
import { createAuthority } from '../kit/certificates.ts';
import type { Namespace } from './kubectl.ts';
import { PROCESSES } from './pods.ts';

/** The user of the services at the brokers. */
export const KAFKA_USER = 'rms';
/** The public name of the production overlay. */
export const EDGE_NAME = 'returns.example.com';

const VERIFIED = 'sslmode=verify-full&sslrootcert=/var/run/rms/database-ca/ca.crt';

/** The secrets and ConfigMaps that deploy/README.md lists, with new passwords, keys and certificates. */
export async function makeSecrets(space: Namespace): Promise<{
  readonly kafkaPassword: string;
  /** The authority of all certificates. */
  readonly ca: string;
}> {
  const { cert: ca, issue } = createAuthority('cluster trial');
  const kafkaPassword = password();
  const postgresPassword = password();
  const passwords = new Map(PROCESSES.map((name) => [name, password()]));
  const urlOf = (user: string, secret: string) =>
    `postgres://rms_${user}:${secret}@postgres:5432/rms?${VERIFIED}`;
  const broker = issue({ name: 'kafka' });
  const database = issue({ name: 'postgres' });
  const edge = issue({ name: EDGE_NAME });
  await space.apply(
    secret('postgres', { password: postgresPassword }),
    secret('postgres-tls', { 'tls.crt': database.cert, 'tls.key': database.key }),
    secret('edge-tls', { 'tls.crt': edge.cert, 'tls.key': edge.key }),
    secret('kafka-server', { 'server.pem': broker.key + broker.cert }),
    secret('kafka', { username: KAFKA_USER, password: kafkaPassword, 'ca.crt': ca }),
    secret('migrator', {
      DATABASE_URL: urlOf('migrator', postgresPassword),
      ...Object.fromEntries(
        [...passwords].map(([name, text]) => [`DB_PASSWORD_${name.toUpperCase()}`, text]),
      ),
    }),
    secret(
      'database',
      Object.fromEntries([...passwords].map(([name, text]) => [name, urlOf(name, text)])),
    ),
    secret('events', { keyring: newKeyringText() }),
    secret('webhooks', { keyring: newKeyringText() }),
    secret('commerce', { keyring: newKeyringText() }),
    ...PROCESSES.map((name) => {
      const { cert, key } = issue({ name });
      return secret(`${name}-tls`, { 'tls.crt': cert, 'tls.key': key, 'ca.crt': ca });
    }),
    configMap('database-ca', { 'ca.crt': ca }),
    configMap('cluster-keys', {
      'jwks.json': await space.kubectl('get', '--raw', '/openid/v1/jwks'),
    }),
  );
  return { kafkaPassword, ca };
}

/** An authority that nothing in the cluster has a certificate of. */
export function foreignAuthority(name: string) {
  return configMap(name, { 'ca.crt': createAuthority('foreign').cert });
}

function secret(name: string, stringData: Readonly<Record<string, string>>) {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name }, stringData };
}

function configMap(name: string, data: Readonly<Record<string, string>>) {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data };
}

function password(): string {
  return randomBytes(18).toString('hex');
}
