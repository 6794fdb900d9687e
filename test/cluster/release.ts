import { z } from 'zod';
import type { Namespace } from './kubectl.ts';
import { PROCESSES, READY_MS } from './pods.ts';

const deployment = z.object({
  spec: z.object({
    template: z.object({
      metadata: z.looseObject({}),
      spec: z.looseObject({ initContainers: z.array(z.looseObject({ name: z.string() })) }),
    }),
  }),
});

/** Runs the migrations of an image, as the Deployment `demo` does before it starts. */
export async function migrate(space: Namespace, image: string): Promise<void> {
  const { template } = deployment.parse(
    JSON.parse(await space.kubectl('get', 'deployment/demo', '-o', 'json')),
  ).spec;
  const { initContainers, ...spec } = template.spec;
  const containers = initContainers.filter(({ name }) => name === 'migrate');
  await space.kubectl('delete', 'job/migrate-next', '--ignore-not-found', '--wait');
  await space.apply({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'migrate-next', namespace: space.name },
    spec: {
      backoffLimit: 0,
      template: {
        ...template,
        spec: {
          ...spec,
          restartPolicy: 'Never',
          containers: containers.map((one) => ({ ...one, image })),
        },
      },
    },
  });
  await space.kubectl('wait', '--for=condition=complete', 'job/migrate-next', '--timeout=300s');
  await space.kubectl('delete', 'job/migrate-next', '--wait');
}

/** Restarts every pod of the release that runs, one Deployment after the other. */
export async function restartEach(space: Namespace): Promise<void> {
  for (const name of PROCESSES) {
    await space.kubectl('rollout', 'restart', `deployment/${name}`);
    await untilRolledOut(space, name);
  }
}

/** Gives all processes this image. */
export async function rollTo(space: Namespace, image: string): Promise<void> {
  for (const name of PROCESSES)
    await space.kubectl('set', 'image', `deployment/${name}`, `server=${image}`);
  for (const name of PROCESSES) await untilRolledOut(space, name);
}

export async function undo(space: Namespace): Promise<void> {
  for (const name of PROCESSES) await space.kubectl('rollout', 'undo', `deployment/${name}`);
  for (const name of PROCESSES) await untilRolledOut(space, name);
}

export async function untilRolledOut(space: Namespace, name: string): Promise<void> {
  const timeout = `--timeout=${READY_MS / 1_000}s`;
  await space.kubectl('rollout', 'status', `deployment/${name}`, timeout);
}
