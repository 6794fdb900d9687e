import { z } from 'zod';
import { type ProcessName, SERVICE_NAMES } from '../../services/platform/services.ts';
import { until } from '../kit/until.ts';
import type { Namespace } from './kubectl.ts';

const podList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({
        name: z.string(),
        uid: z.string(),
        deletionTimestamp: z.string().optional(),
        labels: z.record(z.string(), z.string()).default({}),
      }),
      status: z.object({
        phase: z.string(),
        podIP: z.string().default(''),
        containerStatuses: z
          .array(z.object({ ready: z.boolean(), restartCount: z.number() }))
          .default([]),
      }),
    }),
  ),
});

export type Pod = z.infer<typeof podList>['items'][number];

/** Our processes, in the order in which a release replaces them. */
export const PROCESSES: readonly ProcessName[] = [...SERVICE_NAMES, 'gateway'];

export const READY_MS = 300_000;

/** The pods of a namespace, without those of Jobs that are done. */
export async function pods(space: Namespace): Promise<readonly Pod[]> {
  const { items } = podList.parse(JSON.parse(await space.kubectl('get', 'pods', '-o', 'json')));
  return items.filter(({ status }) => status.phase !== 'Succeeded');
}

/** The pods of our processes. */
export async function processPods(space: Namespace): Promise<readonly Pod[]> {
  const names: readonly string[] = PROCESSES;
  return (await pods(space)).filter(({ metadata }) => names.includes(metadata.labels.app ?? ''));
}

export function isReady({ metadata, status }: Pod): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status.containerStatuses.length > 0 &&
    status.containerStatuses.every(({ ready }) => ready)
  );
}

/** Waits until every pod is ready and none is on its way out. */
export async function untilReady(space: Namespace, withinMs = READY_MS): Promise<void> {
  const notReady = async () => {
    const list = (await pods(space)).filter((pod) => !isReady(pod));
    return list.map(({ metadata }) => metadata.name);
  };
  await until(async (see) => see(await notReady()).length === 0, { withinMs, everyMs: 500 });
}

export function restartsOf({ status }: Pod): number {
  return status.containerStatuses.reduce((sum, { restartCount }) => sum + restartCount, 0);
}

/** How often containers were restarted, by pod; without those that never were. */
export async function restarts(space: Namespace): Promise<Readonly<Record<string, number>>> {
  const counts = (await pods(space)).map((pod) => [pod.metadata.name, restartsOf(pod)] as const);
  return Object.fromEntries(counts.filter(([, count]) => count !== 0));
}

/** Evicts a pod, as a drain of its node does. */
export async function evict(space: Namespace, pod: string): Promise<void> {
  const eviction = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name: pod, namespace: space.name },
  };
  await space.create(eviction, `/api/v1/namespaces/${space.name}/pods/${pod}/eviction`);
}
