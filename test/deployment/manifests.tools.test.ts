import { existsSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { loadConfig } from '../../services/platform/config.ts';
import { type Workload, workloadsOf } from './manifests.ts';
import { shapeOf } from './shapes.ts';

const ROOT = new URL('../../', import.meta.url);
const workloads = workloadsOf('deploy/overlays/dev');
const processes = workloads.filter(({ kind }) => kind === 'Deployment');
const ours = workloads.filter(({ image }) => image === 'rms');
const named = (all: readonly Workload[]) => all.map((one) => [one.name, one] as const);

describe('the dev overlay', () => {
  test('runs the gateway, the six services and the migrations from our image', () => {
    expect(ours.map(({ name }) => name).toSorted()).toEqual([
      'carts',
      'destinations',
      'dispositions',
      'fraud',
      'gateway',
      'migrate',
      'returns',
      'webhooks',
    ]);
  });

  test('takes PostgreSQL and Kafka from elsewhere, and nothing more', () => {
    const others = workloads.filter(({ image }) => image !== 'rms').map(({ image }) => image);
    expect(others.map((image) => image.split(':')[0]).toSorted()).toEqual([
      'apache/kafka',
      'postgres',
    ]);
    for (const image of others) expect(image).toMatch(/:\d[\w.-]*$/);
  });

  test('names no image by a tag that moves', () => {
    for (const { image } of workloads) expect(image).not.toMatch(/latest/);
  });

  test('fits into a small cluster', () => {
    const cpu = workloads.map((one) => one.replicas * cores(one)).reduce((a, b) => a + b, 0);
    expect(cpu).toBeGreaterThan(0);
    expect(cpu).toBeLessThan(1.5);
  });
});

describe.each(named(workloads))('workload %s', (_, { container }) => {
  test('asks for what it needs and is bounded in memory', () => {
    expect(container.resources).toEqual({
      requests: { cpu: expect.stringMatching(/^\d+m?$/), memory: expect.stringMatching(/^\d+Mi$/) },
      limits: { memory: expect.stringMatching(/^\d+Mi$/) },
    });
  });
});

describe.each(named(processes))('deployment %s', (name, { container, pod }) => {
  test('is asked whether it is ready and whether it lives', () => {
    expect(container.readinessProbe).toEqual(
      name === 'gateway'
        ? { httpGet: { path: '/readyz', port: 8080 } }
        : { httpGet: { path: '/readyz', port: 9464 } },
    );
    expect(container.livenessProbe).toBeDefined();
  });

  test('has time for an ordered shutdown: the delay, then 20 s of draining', () => {
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(40);
  });
});

describe.each(named(ours))('process %s', (_, { command, env, container, pod }) => {
  const [program, mainFile = '', ...more] = command;

  test('is a file that exists', () => {
    expect([program, ...more]).toEqual(['node']);
    expect(mainFile).toMatch(/^(gateway|services\/\w+)\/(main|migrate)\.ts$/);
    expect(existsSync(new URL(mainFile, ROOT))).toBe(true);
  });

  test('is given no variable that it does not read', async () => {
    const shape = await shapeOf(mainFile);
    expect(Object.keys(env).filter((name) => !(name in shape))).toEqual([]);
  });

  test('is given every variable that it needs, well-formed', async () => {
    const shape = await shapeOf(mainFile);
    expect(() => loadConfig(shape, { ...env })).not.toThrow();
  });

  test('runs without rights', () => {
    expect(pod.automountServiceAccountToken).toBe(false);
    expect(pod.securityContext).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  });
});

function cores({ container }: Workload): number {
  const cpu = container.resources?.requests.cpu ?? 'none';
  return cpu.endsWith('m') ? Number(cpu.slice(0, -1)) / 1_000 : Number(cpu);
}
