import { describe, expect, test } from '@jest/globals';
import {
  type Data,
  dataIn,
  environmentOf,
  mainFileOf,
  problemsIn,
  shapeOf,
  workloadsIn,
} from '../../deploy/check/problems.ts';
import { renderOverlay } from '../../deploy/check/render.ts';
import { loadConfig } from '../../services/platform/process/config.ts';
import { newKeyringText } from '../../services/platform/security/keyring.ts';
import { PROCESS_NAMES } from '../../services/platform/services.ts';
import { namesOf, ofKind } from './components.ts';

const objects = renderOverlay('deploy/overlays/production');
const workloads = workloadsIn(objects);
/** Those that run our code. */
const named = workloads
  .filter(({ main }) => mainFileOf(main) !== undefined)
  .map((one) => [one.name, one] as const);

const url = 'postgres://rms@db.example.com/rms?sslmode=verify-full';
const keyring = newKeyringText();
/** The secrets that deploy/README.md lists. */
const SECRETS: readonly Data[] = [
  {
    kind: 'Secret',
    name: 'database',
    values: Object.fromEntries(PROCESS_NAMES.map((name) => [name, url])),
  },
  { kind: 'Secret', name: 'migrator', values: { DATABASE_URL: url } },
  { kind: 'Secret', name: 'events', values: { keyring } },
  { kind: 'Secret', name: 'webhooks', values: { keyring } },
  { kind: 'Secret', name: 'kafka', values: { username: 'rms', password: 'x', 'ca.crt': 'x' } },
];

describe('the production overlay', () => {
  test('passes the check before production', async () => {
    expect(await problemsIn(objects)).toEqual([]);
  });

  test.each(named)(
    '%s starts with encrypted connections and the secrets that README lists',
    async (name, one) => {
      const env = environmentOf(one.main, [...dataIn(objects), ...SECRETS]);
      const shape = await shapeOf(mainFileOf(one.main) ?? '');
      const given = name.startsWith('migrate') ? withPasswords(env) : env;
      // Rejects plain connections and static tokens.
      expect(loadConfig(shape, { ...given, NODE_ENV: 'production' })).toMatchObject(
        name.startsWith('migrate') ? {} : { SERVICE_AUTH: 'kubernetes', TRANSPORT_SECURITY: 'tls' },
      );
    },
  );

  test.each(named)('%s mounts the files that its variables name', (_, { main, pod }) => {
    const env = environmentOf(main, [...dataIn(objects), ...SECRETS]);
    const folders = main.volumeMounts.map(({ mountPath }) => mountPath);
    for (const [variable, file] of Object.entries(env)) {
      if (!variable.endsWith('_FILE')) continue;
      if (variable.startsWith('KAFKA') && !env.KAFKA_BROKERS) continue;
      expect(folders).toContain(file.slice(0, file.lastIndexOf('/')));
    }
    const volumes = pod.volumes.map(({ name }) => name);
    expect(main.volumeMounts.filter(({ name }) => !volumes.includes(name))).toEqual([]);
  });

  test('runs two pods of each process, spread over nodes and drained one at a time', () => {
    const deployments = workloads.filter(({ kind }) => kind === 'Deployment');
    expect(deployments.map(({ replicas }) => replicas)).toEqual(
      [...PROCESS_NAMES, 'edge'].map(() => 2),
    );
    expect(namesOf(objects, 'PodDisruptionBudget')).toEqual(namesOf(objects, 'Deployment'));
  });

  test('denies connections that no policy allows', () => {
    expect(namesOf(objects, 'NetworkPolicy')).toContain('default-deny');
  });

  test('contains no password and no database server or broker', () => {
    expect(ofKind(objects, 'Secret')).toEqual([]);
    expect(ofKind(objects, 'StatefulSet')).toEqual([]);
  });
});

test('the check rejects the dev overlay, and names each reason', async () => {
  const problems = await problemsIn(renderOverlay('deploy/overlays/dev'));
  expect(problems).toEqual(
    expect.arrayContaining([
      'ConfigMap process: NODE_ENV is not production',
      'Deployment demo: deploy/demo/main.ts is the bundled identity or demo data',
      'Deployment gateway: deploy/demo/forward.ts is the bundled identity or demo data',
      'Secret sign-in: client-secret is a demo secret',
      'Secret database: gateway is a demo secret',
      'Secret events: keyring is a demo secret',
      'Secret service-token: SERVICE_TOKEN is a demo secret',
      'Secret webhooks: keyring is a demo secret',
    ]),
  );
});

function withPasswords(env: Readonly<Record<string, string>>): Record<string, string> {
  const passwords = PROCESS_NAMES.map((name) => [`DB_PASSWORD_${name.toUpperCase()}`, 'x']);
  return { ...env, ...Object.fromEntries(passwords) };
}
