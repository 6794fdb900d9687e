import { z } from 'zod';
import { renderOverlay } from './kubectl.ts';

const reference = z.object({ name: z.string(), optional: z.boolean().default(false) });
const keyReference = reference.extend({ key: z.string() });

const container = z.looseObject({
  image: z.string(),
  command: z.array(z.string()).default([]),
  env: z
    .array(
      z.object({
        name: z.string(),
        value: z.string().optional(),
        valueFrom: z
          .strictObject({
            configMapKeyRef: keyReference.optional(),
            secretKeyRef: keyReference.optional(),
          })
          .optional(),
      }),
    )
    .default([]),
  envFrom: z
    .array(z.strictObject({ configMapRef: reference.optional(), secretRef: reference.optional() }))
    .default([]),
  readinessProbe: z.looseObject({}).optional(),
  livenessProbe: z.looseObject({}).optional(),
  securityContext: z.looseObject({}).optional(),
  resources: z
    .object({
      requests: z.object({ cpu: z.string(), memory: z.string() }),
      limits: z.object({ memory: z.string() }),
    })
    .optional(),
});

const workloadShape = z.looseObject({
  kind: z.enum(['Deployment', 'StatefulSet', 'Job']),
  metadata: z.looseObject({ name: z.string() }),
  spec: z.looseObject({
    replicas: z.number().default(1),
    template: z.looseObject({
      spec: z.looseObject({
        containers: z.tuple([container]),
        terminationGracePeriodSeconds: z.number().optional(),
        automountServiceAccountToken: z.boolean().optional(),
        securityContext: z.looseObject({}).optional(),
      }),
    }),
  }),
});

const dataShape = z.looseObject({
  kind: z.enum(['ConfigMap', 'Secret']),
  metadata: z.looseObject({ name: z.string() }),
  data: z.record(z.string(), z.string()).default({}),
});

type Data = ReadonlyMap<string, Readonly<Record<string, string>>>;

export interface Workload {
  readonly name: string;
  readonly kind: 'Deployment' | 'StatefulSet' | 'Job';
  readonly replicas: number;
  readonly image: string;
  readonly command: readonly string[];
  /** What the process is started with: literals, config maps and secrets, as Kubernetes merges them. */
  readonly env: Readonly<Record<string, string>>;
  readonly container: z.infer<typeof container>;
  readonly pod: z.infer<typeof workloadShape>['spec']['template']['spec'];
}

/** The workloads of an overlay, each with its one container. @throws when a reference leads nowhere. */
export function workloadsOf(folder: string): Workload[] {
  const objects = renderOverlay(folder);
  const data = dataIn(objects);
  return objects.flatMap((object) => {
    const { success, data: found } = workloadShape.safeParse(object);
    if (!success) {
      if (isWorkload(object)) workloadShape.parse(object);
      return [];
    }
    const pod = found.spec.template.spec;
    const [only] = pod.containers;
    return {
      name: found.metadata.name,
      kind: found.kind,
      replicas: found.spec.replicas,
      image: only.image,
      command: only.command,
      env: environmentOf(only, data),
      container: only,
      pod,
    };
  });
}

const kindShape = z.looseObject({ kind: z.string() });

function isWorkload(object: unknown): boolean {
  const { kind } = kindShape.parse(object);
  return ['Deployment', 'StatefulSet', 'DaemonSet', 'Job', 'CronJob', 'Pod'].includes(kind);
}

function dataIn(objects: readonly unknown[]): Data {
  const found = new Map<string, Record<string, string>>();
  for (const object of objects) {
    const { success, data } = dataShape.safeParse(object);
    if (!success) continue;
    const plain = (text: string) =>
      data.kind === 'Secret' ? Buffer.from(text, 'base64').toString('utf8') : text;
    const entries = Object.entries(data.data).map(([key, text]) => [key, plain(text)]);
    found.set(`${data.kind}/${data.metadata.name}`, Object.fromEntries(entries));
  }
  return found;
}

function environmentOf(one: z.infer<typeof container>, data: Data): Record<string, string> {
  const whole = one.envFrom.flatMap(({ configMapRef, secretRef }) => [
    configMapRef && allOf(data, 'ConfigMap', configMapRef),
    secretRef && allOf(data, 'Secret', secretRef),
  ]);
  const single = one.env.map(({ name, value, valueFrom }) => {
    const { configMapKeyRef: map, secretKeyRef: secret } = valueFrom ?? {};
    if (map) return { [name]: keyOf(data, 'ConfigMap', map) };
    if (secret) return { [name]: keyOf(data, 'Secret', secret) };
    return { [name]: value ?? '' };
  });
  // Named variables win over those taken whole.
  return Object.assign({}, ...whole, ...single);
}

type Kind = z.infer<typeof dataShape>['kind'];

function allOf(data: Data, kind: Kind, { name, optional }: z.infer<typeof reference>) {
  const found = data.get(`${kind}/${name}`);
  if (!found && !optional) throw new Error(`there is no ${kind} ${name}`);
  return found ?? {};
}

function keyOf(data: Data, kind: Kind, ref: z.infer<typeof keyReference>): string {
  const value = allOf(data, kind, ref)[ref.key];
  if (value === undefined && !ref.optional) {
    throw new Error(`${kind} ${ref.name} has no key ${ref.key}`);
  }
  // An empty variable counts as unset.
  return value ?? '';
}
