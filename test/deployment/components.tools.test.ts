import { globSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import {
  dataIn,
  environmentOf,
  problemsIn,
  type Workload,
  workloadsIn,
} from '../../deploy/check/problems.ts';
import type { Manifest } from '../../deploy/check/render.ts';
import { gatewayShape } from '../../gateway/config.ts';
import { identityShape, loadConfig } from '../../services/platform/process/config.ts';
import { PROCESS_NAMES } from '../../services/platform/services.ts';
import { namesOf, ofKind, renderWith } from './components.ts';
import { denialsOf } from './pod-security.ts';
import { documentedCalls } from './policies.ts';

const ROOT = new URL('../../', import.meta.url);
const COMPONENTS = globSync('**/kustomization.yaml', { cwd: new URL('deploy/components/', ROOT) })
  .map((file) => file.replace('/kustomization.yaml', ''))
  .toSorted();

const deployments = (objects: readonly Manifest[]): Workload[] =>
  workloadsIn(objects).filter(({ kind }) => kind === 'Deployment');
const PROCESSES = deployments(renderWith([]))
  .map(({ name }) => name)
  .toSorted();
const SERVICES = PROCESSES.filter((name) => name !== 'gateway');

test('deploy/components contains components', () => {
  expect(COMPONENTS).toEqual([
    'autoscaling',
    'disruption',
    'edge',
    'identity',
    'in-cluster-stores',
    'kafka-topics',
    'mail',
    'network-policies',
    'network-policies/ipv6',
    'network-policies/mail',
    'observability',
    'route',
    'tls',
  ]);
});

describe.each(COMPONENTS)('the component %s', (name) => {
  test('is in the list of deploy/README.md', () => {
    const page = readFileSync(new URL('deploy/README.md', ROOT), 'utf8');
    expect(page).toContain(`\n- \`components/${name}\`: `);
  });

  test('renders alone, with all objects in the namespace of the overlay', () => {
    const objects = renderWith([name]);
    const namespaces = objects.map(({ metadata }) => metadata.namespace);
    expect(new Set(namespaces)).toEqual(new Set(['elsewhere']));
    expect(PROCESSES).toEqual(PROCESS_NAMES.toSorted());
    expect(
      deployments(objects)
        .map((one) => one.name)
        .filter((one) => one !== 'edge')
        .toSorted(),
    ).toEqual(PROCESSES);
  });
});

test('all components render together in any order', () => {
  const objects = (names: readonly string[]) =>
    new Set(renderWith(names).map((one) => JSON.stringify(one)));
  expect(objects(COMPONENTS).size).toBe(objects(COMPONENTS.toReversed()).size);
});

describe('autoscaling', () => {
  const objects = renderWith(['autoscaling']);

  test('has an autoscaler for each process, which decides the number of pods', () => {
    expect(namesOf(objects, 'HorizontalPodAutoscaler')).toEqual(PROCESSES);
    for (const { spec } of ofKind(objects, 'Deployment'))
      expect(spec).not.toHaveProperty('replicas');
  });

  test('keeps at least two pods', () => {
    for (const { spec } of ofKind(objects, 'HorizontalPodAutoscaler')) {
      expect(spec).toMatchObject({ minReplicas: 2, maxReplicas: 6 });
    }
  });

  test('applies no object of KEDA', () => {
    expect(objects.map(({ kind }) => kind)).not.toContain('ScaledObject');
  });
});

describe('disruption', () => {
  const objects = renderWith(['disruption']);

  test('lets a drain evict one replica at a time', () => {
    expect(namesOf(objects, 'PodDisruptionBudget')).toEqual(PROCESSES);
    for (const { spec, metadata } of ofKind(objects, 'PodDisruptionBudget')) {
      expect(spec).toMatchObject({
        maxUnavailable: 1,
        selector: { matchLabels: { app: metadata.name } },
      });
    }
  });

  test('spreads the pods of a Deployment over nodes if possible', () => {
    for (const { pod } of deployments(objects)) {
      expect(pod.topologySpreadConstraints).toEqual([
        expect.objectContaining({ whenUnsatisfiable: 'ScheduleAnyway' }),
      ]);
    }
  });
});

describe('identity', () => {
  const objects = renderWith(
    ['identity'],
    'configMapGenerator: [{ name: process, behavior: merge, literals: [SERVICE_ISSUER=https://cluster] }]',
  );
  const data = dataIn(objects).concat(
    ['database', 'events', 'webhooks'].map((name) => ({
      kind: 'Secret',
      name,
      values: anything(),
    })),
  );

  test.each(PROCESSES)('%s accepts only the tokens of its callers', (name) => {
    const found = deployments(objects).find((one) => one.name === name);
    const env = found ? environmentOf(found.main, data) : {};
    const { SERVICE_SUBJECTS, SERVICE_AUTH } = loadConfig(identityShape, {
      ...env,
      NODE_ENV: 'production',
      TRANSPORT_SECURITY: 'mesh',
    });
    const callers = documentedCalls()
      .filter((edge) => edge.endsWith(` -> ${name}`))
      .map((edge) => edge.split(' ')[0]);
    const expected = name === 'gateway' ? ['gateway'] : callers;
    expect(SERVICE_AUTH).toBe('kubernetes');
    expect(SERVICE_SUBJECTS?.toSorted()).toEqual(
      expected.map((caller) => `system:serviceaccount:a-namespace:${caller}`).toSorted(),
    );
  });

  test.each(PROCESSES)('%s has its own service account, with a token for our audience', (name) => {
    const found = deployments(objects).find((one) => one.name === name);
    expect(found?.pod.serviceAccountName).toBe(name);
    expect(found?.pod.volumes).toContainEqual({
      name: 'identity',
      projected: {
        sources: [
          { serviceAccountToken: { audience: 'rms', expirationSeconds: 3_600, path: 'token' } },
        ],
      },
    });
    expect(namesOf(objects, 'ServiceAccount')).toEqual([...PROCESSES, 'migrate'].toSorted());
  });
});

test('mail: the gateway reads all its variables, also with tls', async () => {
  const all = renderWith(['tls', 'mail']);
  expect(await problemsIn(all)).toEqual([]);
  const gateway = workloadsIn(all).find(({ name }) => name === 'gateway');
  const secrets = ['database', 'events', 'smtp'].map(
    (name) => ({ kind: 'Secret', name, values: anything() }) as const,
  );
  const env = gateway ? environmentOf(gateway.main, dataIn(all).concat(secrets)) : {};
  const mounts = gateway?.main.volumeMounts.map(({ mountPath }) => mountPath);
  expect(mounts).toEqual(expect.arrayContaining(['/var/run/rms/kafka', '/var/run/rms/smtp']));
  expect(env.SMTP_PASSWORD_FILE).toBe('/var/run/rms/smtp/password');
  expect(env.KAFKA_SASL_PASSWORD_FILE).toMatch(/^\/var\/run\/rms\/kafka\//);
  expect(env.KAFKA_BROKERS).toBeDefined();
  // A gateway without mails has no key that signs events.
  const without = workloadsIn(renderWith(['tls'])).find(({ name }) => name === 'gateway');
  expect(without?.main.env.map(({ name }) => name)).not.toContain('EVENT_KEYRING');
});

test('kafka-topics: the Job reads all its variables, also with tls', async () => {
  const all = renderWith(['tls', 'kafka-topics']);
  expect(await problemsIn(all)).toEqual([]);
  const job = workloadsIn(all).find(({ name }) => name.startsWith('topics-'));
  const files = ['KAFKA_TLS_CA_FILE', 'KAFKA_SASL_PASSWORD_FILE'];
  const env = job ? environmentOf(job.main, dataIn(all)) : {};
  for (const name of files) expect(env[name]).toMatch(/^\/var\/run\/rms\/kafka\//);
  expect(job?.main.volumeMounts.map(({ mountPath }) => mountPath)).toContain('/var/run/rms/kafka');
  expect(dataIn(all).find(({ name }) => name.startsWith('bus-'))?.values.KAFKA_TOPICS).toBe(
    'check',
  );
});

test.each(COMPONENTS)('%s: the Pod Security level restricted admits its pods', (name) => {
  expect(renderWith([name]).flatMap(denialsOf)).toEqual([]);
});

describe('tls', () => {
  const objects = renderWith(['tls']);

  test.each(SERVICES)('%s mounts every file that its variables name', (name) => {
    const found = deployments(objects).find((one) => one.name === name);
    const files = dataIn(objects)
      .flatMap(({ values }) => Object.entries(values))
      .filter(([variable]) => variable.endsWith('_FILE'));
    expect(files).toHaveLength(5);
    const folders = found?.main.volumeMounts.map(({ mountPath }) => mountPath);
    for (const [, file] of files) expect(folders).toContain(file.slice(0, file.lastIndexOf('/')));
  });

  test.each(PROCESSES)('%s has its own certificate, and optionally one for PostgreSQL', (name) => {
    const found = deployments(objects).find((one) => one.name === name);
    expect(found?.pod.volumes).toEqual(
      expect.arrayContaining([
        { name: 'grpc-tls', secret: { secretName: `${name}-tls` } },
        {
          name: 'database-client',
          secret: { secretName: `${name}-database-client`, optional: true },
        },
        { name: 'database-ca', configMap: { name: 'database-ca', optional: true } },
      ]),
    );
  });

  test('the migrations verify the certificate of the database', () => {
    const migrate = workloadsIn(objects).find(({ kind }) => kind === 'Job');
    expect(migrate?.main.volumeMounts.map(({ mountPath }) => mountPath)).toEqual(
      expect.arrayContaining(['/var/run/rms/database-ca', '/var/run/rms/database-client']),
    );
  });
});

test('observability: pods have annotations with the port of their metrics', () => {
  const scraped = ofKind(renderWith(['observability']), 'Deployment').map(({ spec }) => spec);
  for (const spec of scraped) {
    expect(spec).toMatchObject({
      template: { metadata: { annotations: { 'prometheus.io/port': '9464' } } },
    });
  }
  expect(scraped).toHaveLength(PROCESS_NAMES.length);
});

test('edge: HAProxy finds the gateways by a whole name, because it has no search domains', () => {
  const edge = deployments(renderWith(['edge'])).find(({ name }) => name === 'edge');
  expect(edge?.main.env).toContainEqual({
    name: 'EDGE_GATEWAY',
    value: 'gateway-pods.$(POD_NAMESPACE).svc.cluster.local:8080',
  });
});

describe.each(['route', 'edge'])('%s', (name) => {
  test('lists the proxies in front of the gateway instead of trusting every address', () => {
    const { values = {} } =
      dataIn(renderWith([name])).find((one) => one.name.startsWith('gateway-')) ?? {};
    const { TRUSTED_PROXIES } = loadConfig(
      { TRUSTED_PROXIES: gatewayShape.TRUSTED_PROXIES },
      values,
    );
    expect(TRUSTED_PROXIES?.length).toBeGreaterThan(0);
  });
});

test('in-cluster-stores: images of other projects have a version', () => {
  const images = workloadsIn(renderWith(['in-cluster-stores']))
    .filter(({ kind }) => kind === 'StatefulSet')
    .map(({ main }) => main.image);
  expect(images.toSorted()).toEqual([
    expect.stringMatching(/^apache\/kafka:\d/),
    expect.stringMatching(/^postgres:\d/),
  ]);
});

test('in-cluster-stores: PostgreSQL is set as docs/operations.md says for the smallest size', () => {
  const page = readFileSync(new URL('docs/operations.md', ROOT), 'utf8');
  const documented = new Map(
    [...page.matchAll(/^\| `(\w+)`[^|]*\| (\S+)(?: (MB|GB|min))? \|/gm)].map(
      ([, name, value, unit = '']) => [name, `${value}${unit}`],
    ),
  );
  const postgres = ofKind(renderWith(['in-cluster-stores']), 'StatefulSet').find(
    ({ metadata }) => metadata.name === 'postgres',
  );
  const settings = JSON.stringify(postgres?.spec).matchAll(/"--(\w+)=([^"]*)"/g);
  const set = new Map([...settings].map(([, name, value]) => [name, value]));
  expect(set).toEqual(documented);
});

/** Values for keys of secrets that this test does not use. */
function anything(): Record<string, string> {
  return new Proxy<Record<string, string>>({}, { get: () => 'x' });
}
