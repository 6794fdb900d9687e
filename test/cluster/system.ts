import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { z } from 'zod';
import { until } from '../kit/until.ts';
import { apply, forward, kubectl, NAMESPACE } from './kubectl.ts';

const podList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), deletionTimestamp: z.string().optional() }),
      status: z.object({
        containerStatuses: z
          .array(z.object({ ready: z.boolean(), restartCount: z.number() }))
          .default([]),
      }),
    }),
  ),
});
const demoPage = z.object({
  shops: z
    .array(
      z.object({
        api_keys: z.object({ all: z.string() }),
        fixtures: z.object({
          returns: z.object({
            open: z.array(z.object({ id: z.number(), order_name: z.string() })),
          }),
        }),
      }),
    )
    .min(1),
});
const deployment = z.object({
  spec: z.object({
    template: z.object({
      metadata: z.looseObject({}),
      spec: z.looseObject({ initContainers: z.array(z.looseObject({ name: z.string() })) }),
    }),
  }),
});

/** Processes of the system in the dev overlay, in the order in which a release replaces them. */
export const PROCESSES = [
  'destinations',
  'returns',
  'dispositions',
  'fraud',
  'carts',
  'webhooks',
  'gateway',
];

const READY_MS = 300_000;

/** Applies the dev overlay with these images, and waits until every pod is ready. */
export async function install(image: string, demoImage: string): Promise<void> {
  const folder = await mkdtemp(join(resolve('deploy/overlays'), '.cluster-'));
  const lines = [
    `resources: [${relative(folder, resolve('deploy/overlays/dev'))}]`,
    `images: [${imageOf('rms', image)}, ${imageOf('rms-dev', demoImage)}]`,
  ];
  try {
    await writeFile(join(folder, 'kustomization.yaml'), lines.join('\n'));
    await kubectl('apply', '-k', folder);
  } finally {
    await rm(folder, { recursive: true });
  }
  await untilReady();
}

function imageOf(name: string, image: string): string {
  const [newName, newTag] = image.split(/:(?=[^:/]+$)/);
  return `{ name: ${name}, newName: ${newName}, newTag: "${newTag}" }`;
}

export async function pods() {
  return podList.parse(JSON.parse(await kubectl('get', 'pods', '-o', 'json'))).items;
}

/** Waits until every pod is ready and none is on its way out. */
export async function untilReady(): Promise<void> {
  const isReady = async () =>
    (await pods()).every(
      ({ metadata, status }) =>
        metadata.deletionTimestamp === undefined &&
        status.containerStatuses.length > 0 &&
        status.containerStatuses.every(({ ready }) => ready),
    );
  await until(isReady, READY_MS);
}

/** How often containers were restarted, by pod; without those that never were. */
export async function restarts(): Promise<Readonly<Record<string, number>>> {
  const counts = (await pods()).map(({ metadata, status }) => [
    metadata.name,
    status.containerStatuses.reduce((sum, { restartCount }) => sum + restartCount, 0),
  ]);
  return Object.fromEntries(counts.filter(([, count]) => count !== 0));
}

/** Runs the migrations of an image, as the Deployment `demo` does before it starts. */
export async function migrate(image: string): Promise<void> {
  const { template } = deployment.parse(
    JSON.parse(await kubectl('get', 'deployment/demo', '-o', 'json')),
  ).spec;
  const { initContainers, ...spec } = template.spec;
  const containers = initContainers.filter(({ name }) => name === 'migrate');
  await kubectl('delete', 'job/migrate-next', '--ignore-not-found', '--wait');
  await apply({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'migrate-next', namespace: NAMESPACE },
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
  await kubectl('wait', '--for=condition=complete', 'job/migrate-next', '--timeout=300s');
  await kubectl('delete', 'job/migrate-next', '--wait');
}

/** Gives all processes this image, one Deployment after the other. */
export async function rollTo(image: string): Promise<void> {
  for (const name of PROCESSES)
    await kubectl('set', 'image', `deployment/${name}`, `server=${image}`);
  await untilRolledOut();
}

export async function undo(): Promise<void> {
  for (const name of PROCESSES) await kubectl('rollout', 'undo', `deployment/${name}`);
  await untilRolledOut();
}

async function untilRolledOut(): Promise<void> {
  for (const name of PROCESSES) {
    await kubectl('rollout', 'status', `deployment/${name}`, `--timeout=${READY_MS / 1_000}s`);
  }
}

/** Evicts a pod, as a drain of its node does. */
export async function evict(pod: string): Promise<void> {
  const object = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name: pod, namespace: NAMESPACE },
  };
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${pod}/eviction`;
  const folder = await mkdtemp(join(resolve('deploy/overlays'), '.cluster-'));
  try {
    const file = join(folder, 'eviction.json');
    await writeFile(file, JSON.stringify(object));
    await kubectl('create', '--raw', path, '-f', file);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Key and open returns of the first demo shop. */
export async function demoShop() {
  const receiver = await forward('receiver', 8080);
  try {
    const response = await fetch(`${receiver.url}/demo.json`);
    const [shop] = demoPage.parse(await response.json()).shops;
    if (!shop) throw new Error('the demo has no shop');
    return { key: shop.api_keys.all, returns: shop.fixtures.returns.open };
  } finally {
    receiver.stop();
  }
}

/** What the receiver has got: how often each webhook id came. */
export async function arrived(): Promise<ReadonlyMap<string, { count: number; returnId: number }>> {
  const receiver = await forward('receiver', 8080);
  try {
    const response = await fetch(`${receiver.url}/webhooks.json`);
    const list = webhooks.parse(await response.json());
    const byId = new Map<string, { count: number; returnId: number }>();
    for (const { webhook_id, payload } of list) {
      const known = byId.get(webhook_id);
      byId.set(webhook_id, {
        count: (known?.count ?? 0) + 1,
        returnId: payload?.id ?? known?.returnId ?? 0,
      });
    }
    return byId;
  } finally {
    receiver.stop();
  }
}

const webhooks = z.array(
  z.object({
    webhook_id: z.string(),
    valid: z.literal(true),
    payload: z.object({ id: z.number() }).nullable(),
  }),
);
