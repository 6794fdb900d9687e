import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import {
  dataIn,
  environmentOf,
  helpersIn,
  mainFileOf,
  shapeOf,
  type Workload,
  workloadsIn,
} from '../../deploy/check/problems.ts';
import { renderOverlay } from '../../deploy/check/render.ts';
import { SCHEMAS } from '../../services/platform/postgres/schemas.ts';
import { loadConfig } from '../../services/platform/process/config.ts';
import { forServices } from '../../services/platform/services.ts';
import { denialsOf } from './pod-security.ts';

const ROOT = new URL('../../', import.meta.url);
const objects = renderOverlay('deploy/overlays/dev');
const data = dataIn(objects);
const workloads = workloadsIn(objects);
const processes = workloads.filter(({ labels }) =>
  ['gateway', 'service'].includes(labels['app.kubernetes.io/component'] ?? ''),
);
const named = (all: readonly Workload[]) => all.map((one) => [one.name, one] as const);

function isOurs(image: string): boolean {
  return /^rms(-dev)?:/.test(image);
}

describe.each(['dev', 'dev-sync', 'production'])('the overlay %s', (name) => {
  const all = renderOverlay(`deploy/overlays/${name}`);

  test('has a namespace that enforces the Pod Security level restricted', () => {
    const [namespace, ...others] = all.filter(({ kind }) => kind === 'Namespace');
    expect(others).toEqual([]);
    expect(namespace?.metadata.labels).toMatchObject({
      'pod-security.kubernetes.io/enforce': 'restricted',
    });
    for (const { kind, metadata } of all) {
      if (kind !== 'Namespace') expect(metadata.namespace).toBe(namespace?.metadata.name);
    }
  });

  test('has only pods that this level admits', () => {
    expect(all.flatMap(denialsOf)).toEqual([]);
  });

  test('has a fixed tag for every image, and pulls it only if it is not present', () => {
    for (const { containers } of workloadsIn(all)) {
      for (const { image, imagePullPolicy } of containers) {
        expect(image).toMatch(/:(?!latest$)[\w.-]+$/);
        expect(imagePullPolicy).toBe('IfNotPresent');
      }
    }
  });

  test('has the common labels on objects and pods', () => {
    const { version } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8'));
    for (const { name: process, labels, main } of workloadsIn(all)) {
      if (!main.image.includes('rms:')) continue;
      expect(labels).toMatchObject({
        'app.kubernetes.io/name': process.replace(/^migrate-.*/, 'migrate'),
        'app.kubernetes.io/component': expect.any(String),
        'app.kubernetes.io/part-of': 'rms',
        'app.kubernetes.io/version': version,
      });
    }
  });

  test('uses only kinds that every cluster has', () => {
    const groups = all.map(({ apiVersion }) => String(apiVersion).replace(/\/?v\d+$/, ''));
    expect(groups.filter((group) => group.includes('.') && !group.endsWith('.k8s.io'))).toEqual([]);
    expect(groups).not.toContain('gateway.networking.k8s.io');
  });
});

describe('the dev overlay', () => {
  test('runs the process of every schema from our image', () => {
    const expected = SCHEMAS.map(({ name }) => name).toSorted();
    expect(processes.map(({ name }) => name).toSorted()).toEqual(expected);
  });

  test('migrates in an init container, because Kubernetes does not allow changes of a Job', () => {
    expect(workloads.filter(({ kind }) => kind === 'Job')).toEqual([]);
    const demo = workloads.find(({ name }) => name === 'demo');
    expect(demo?.pod.initContainers.map(mainFileOf)).toEqual([
      'services/platform/postgres/migrate.ts',
    ]);
  });

  test('lets webhooks connect to the receiver and to no other private address', () => {
    const webhooks = processes.find(({ name }) => name === 'webhooks');
    const { WEBHOOK_ALLOWED_ORIGINS } = webhooks ? environmentOf(webhooks.main, data) : {};
    expect(WEBHOOK_ALLOWED_ORIGINS).toBe('http://receiver:8080');
  });

  test('fits into a small cluster', () => {
    const cpu = workloads.flatMap(({ replicas, pod }) =>
      pod.containers.map(({ resources }) => replicas * cores(resources?.requests.cpu)),
    );
    expect(cpu.reduce((a, b) => a + b, 0)).toBeLessThan(1.5);
    expect(Math.min(...cpu)).toBeGreaterThan(0);
  });
});

describe.each(named(workloads))('workload %s', (_, { containers }) => {
  test('requests the resources that it needs, with limits for memory and disk but not for CPU', () => {
    for (const { resources } of containers) {
      expect(resources).toEqual({
        requests: {
          cpu: expect.stringMatching(/^\d+m$/),
          memory: expect.stringMatching(/^\d+Mi$/),
          'ephemeral-storage': expect.stringMatching(/^\d+Mi$/),
        },
        limits: {
          memory: expect.stringMatching(/^\d+Mi$/),
          'ephemeral-storage': expect.stringMatching(/^\d+Mi$/),
        },
      });
    }
  });
});

describe.each(named(processes))('deployment %s', (name, { main, pod }) => {
  const isGateway = name === 'gateway';
  const alive = isGateway
    ? { httpGet: { path: '/livez', port: 'liveness' } }
    : { grpc: { port: 8081, service: 'rms.liveness' } };

  test('has a readiness probe, and a liveness probe that does not depend on the database', () => {
    expect(main.readinessProbe).toMatchObject({
      httpGet: { path: '/readyz', port: isGateway ? 'liveness' : 'metrics' },
    });
    expect(main.livenessProbe).toMatchObject(alive);
  });

  test('may take two minutes to start', () => {
    expect(main.startupProbe).toMatchObject({ ...alive, periodSeconds: 2, failureThreshold: 60 });
  });

  test('is killed within a minute when it is frozen', () => {
    const { periodSeconds = 10, failureThreshold = 3, ...more } = main.livenessProbe ?? {};
    const { timeoutSeconds, terminationGracePeriodSeconds } = more;
    // The thread of the gateway's probes waits for its event loop first.
    const seconds =
      (isGateway ? 15 : 0) +
      Number(periodSeconds) * Number(failureThreshold) +
      Number(timeoutSeconds) +
      Number(terminationGracePeriodSeconds);
    expect(seconds).toBeLessThan(50);
  });

  test('has time for a graceful shutdown: the delay, then 20 s of draining', () => {
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(40);
  });

  test('has named ports, and serves liveness on the port of the probe', () => {
    const ports = Object.fromEntries(main.ports.map((one) => [one.name, one.containerPort]));
    const calls = isGateway ? 'http' : 'grpc';
    expect(ports).toEqual({ [calls]: 8080, metrics: 9464, liveness: 8081 });
    expect(environmentOf(main, data).HEALTH_PORT).toBe('8081');
  });
});

describe('the Services', () => {
  const services = objects.filter(
    ({ kind, metadata }) => kind === 'Service' && metadata.labels['app.kubernetes.io/part-of'],
  );

  test('use the named ports, and none publishes the liveness port', () => {
    const ports = services.map(({ metadata, spec }) => [
      metadata.name,
      Object(spec).ports.map((one: { name: string }) => one.name),
    ]);
    const grpc = ['grpc', 'metrics'];
    expect(Object.fromEntries(ports)).toEqual({
      ...forServices(() => grpc),
      gateway: ['http'],
      'gateway-metrics': ['metrics'],
    });
  });
});

const programs = workloads.flatMap(({ name, pod, containers }) =>
  containers
    .filter(({ image, command }) => isOurs(image) && command[1] !== 'deploy/demo/forward.ts')
    .map((container) => [`${name}/${container.name}`, { container, pod }] as const),
);

describe.each(programs)('program %s', (_, { container, pod }) => {
  const file = mainFileOf(container) ?? '';

  test('is a file that exists', () => {
    expect(container.command).toEqual(['node', file]);
    expect(file).toMatch(
      /^(gateway|deploy\/demo|services\/(?:\w+|platform\/postgres))\/(main|migrate)\.ts$/,
    );
    expect(existsSync(new URL(file, ROOT))).toBe(true);
  });

  test('gets every variable that it needs, with valid values', async () => {
    const shape = await shapeOf(file);
    expect(() => loadConfig(shape, environmentOf(container, data))).not.toThrow();
  });

  test('gets no variable that it does not read', async () => {
    const shape = await shapeOf(file);
    const helpers = helpersIn(container);
    const names = container.env.map((one) => one.name).filter((name) => !helpers.has(name));
    expect(names.filter((name) => !(name in shape))).toEqual([]);
  });

  test('runs without privileges, and can write only to a small /tmp', () => {
    expect(pod.automountServiceAccountToken).toBe(false);
    expect(pod.serviceAccountName).toBeDefined();
    expect(container.securityContext).toMatchObject({ readOnlyRootFilesystem: true });
    const mount = container.volumeMounts.find(({ mountPath }) => mountPath === '/tmp');
    expect(pod.volumes).toContainEqual({
      name: mount?.name,
      emptyDir: { sizeLimit: expect.any(String) },
    });
  });
});

function cores(cpu = '0'): number {
  return cpu.endsWith('m') ? Number(cpu.slice(0, -1)) / 1_000 : Number(cpu);
}
