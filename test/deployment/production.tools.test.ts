import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { gatewayShape } from '../../gateway/config.ts';
import {
  identityShape,
  loadConfig,
  processShape,
  serviceShape,
} from '../../services/platform/config.ts';
import { OWN_CALLERS } from '../../services/platform/grpc/callers.ts';
import { newKeyringText } from '../../services/platform/keyring.ts';
import { renderOverlay } from './kubectl.ts';

const named = z.looseObject({ kind: z.string(), metadata: z.looseObject({ name: z.string() }) });
const objects = renderOverlay('deploy/overlays/production').map((one) => named.parse(one));
const ofKind = (kind: string) => objects.filter((one) => one.kind === kind);
const names = (kind: string) => ofKind(kind).map(({ metadata }) => metadata.name);

const PROCESSES = [
  'carts',
  'destinations',
  'dispositions',
  'fraud',
  'gateway',
  'returns',
  'webhooks',
];

const SERVICES = PROCESSES.filter((name) => name !== 'gateway');

const podShape = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({
      spec: z.looseObject({
        serviceAccountName: z.string(),
        topologySpreadConstraints: z.array(z.unknown()),
        volumes: z.array(z.unknown()),
        containers: z.tuple([
          z.looseObject({
            env: z.array(z.object({ name: z.string(), value: z.string().optional() })),
            volumeMounts: z.array(z.looseObject({ mountPath: z.string() })),
          }),
        ]),
      }),
    }),
  }),
});

describe('the production overlay', () => {
  const processData = () => {
    const map = ofKind('ConfigMap').find(({ metadata }) => metadata.name.startsWith('process-'));
    return z.looseObject({ data: z.record(z.string(), z.string()) }).parse(map).data;
  };

  test('configures what production asks for: tokens of the cluster, and whose are ours', () => {
    const env = { ...processData(), NODE_ENV: 'production' };
    expect(loadConfig({ ...processShape, ...identityShape }, env)).toMatchObject({
      SERVICE_AUTH: 'kubernetes',
      SERVICE_SUBJECTS: ['system:serviceaccount:rms:*'],
      TRANSPORT_SECURITY: 'tls',
    });
  });

  test.each(PROCESSES)('mounts the files that it names into %s, and spreads its pods', (name) => {
    const deployment = ofKind('Deployment').find(({ metadata }) => metadata.name === name);
    const { spec } = podShape.parse(deployment).spec.template;
    expect(spec.volumes).toContainEqual({
      name: 'identity',
      projected: {
        sources: [
          { serviceAccountToken: { audience: 'rms', expirationSeconds: 3_600, path: 'token' } },
        ],
      },
    });
    expect(spec.volumes).toContainEqual({
      name: 'grpc-tls',
      secret: { secretName: `${name}-tls` },
    });
    const files = Object.entries(processData()).filter(([variable]) => variable.endsWith('_FILE'));
    expect(files.length).toBeGreaterThan(4);
    const folders = spec.containers[0].volumeMounts.map(({ mountPath }) => mountPath);
    for (const [, file] of files) {
      expect(folders).toContain(file.slice(0, file.lastIndexOf('/')));
    }
    expect(spec.topologySpreadConstraints).toHaveLength(1);
  });

  test.each(SERVICES)('encrypts every connection of %s', (name) => {
    const deployment = ofKind('Deployment').find(({ metadata }) => metadata.name === name);
    const [{ env, volumeMounts }] = podShape.parse(deployment).spec.template.spec.containers;
    const literals = env.flatMap(({ name: key, value }) =>
      value === undefined ? [] : [[key, value]],
    );
    const secrets = {
      DATABASE_URL: 'postgres://rms@db/rms?sslmode=verify-full',
      EVENT_KEYRING: newKeyringText(),
      KAFKA_BROKERS: 'kafka.example.com:9093',
      KAFKA_SASL_USERNAME: 'rms',
    };
    const own = Object.fromEntries(literals);
    const all = { ...processData(), ...own, ...secrets, NODE_ENV: 'production' };
    expect(loadConfig(serviceShape, all)).toMatchObject({ KAFKA_TLS: true });
    const folders = volumeMounts.map(({ mountPath }) => mountPath);
    for (const [, file] of literals.filter(([key = '']) => key.endsWith('_FILE'))) {
      expect(folders).toContain(file?.slice(0, file.lastIndexOf('/')));
    }
  });

  test.each(PROCESSES)('runs %s as an account of its own, by which the others know it', (name) => {
    const deployment = ofKind('Deployment').find(({ metadata }) => metadata.name === name);
    const { spec } = podShape.parse(deployment).spec.template;
    expect(spec.serviceAccountName).toBe(name);
    expect(names('ServiceAccount')).toContain(name);
    expect(OWN_CALLERS).toContain(name);
  });

  test('drains one replica of each at a time', () => {
    expect(names('Deployment').toSorted()).toEqual(PROCESSES);
    expect(names('PodDisruptionBudget').toSorted()).toEqual(PROCESSES);
  });

  test('lets nobody but this namespace reach the services', () => {
    const [policy] = ofKind('NetworkPolicy');
    const { podSelector, ingress } = z
      .looseObject({
        spec: z.looseObject({
          podSelector: z.looseObject({
            matchExpressions: z.tuple([z.looseObject({ values: z.array(z.string()) })]),
          }),
          ingress: z.array(z.unknown()),
        }),
      })
      .parse(policy).spec;
    expect(podSelector.matchExpressions[0].values.toSorted()).toEqual(SERVICES);
    expect(ingress).toEqual([
      { from: [{ podSelector: {} }], ports: [{ port: 8080 }] },
      { ports: [{ port: 9464 }] },
    ]);
  });

  test('names the load balancers in front of the gateway, not everybody', () => {
    const map = ofKind('ConfigMap').find(({ metadata }) => metadata.name.startsWith('gateway-'));
    const { data } = z.looseObject({ data: z.record(z.string(), z.string()) }).parse(map);
    const { TRUSTED_PROXIES } = loadConfig(
      { TRUSTED_PROXIES: gatewayShape.TRUSTED_PROXIES },
      { TRUSTED_PROXIES: data['trusted-proxies'] },
    );
    expect(TRUSTED_PROXIES?.length).toBeGreaterThan(0);
  });

  test('brings no password and no server of its own', () => {
    expect(ofKind('Secret')).toEqual([]);
    expect(ofKind('StatefulSet')).toEqual([]);
  });
});
