import { z } from 'zod';
import type { Manifest } from './render.ts';

const reference = z.object({ name: z.string(), optional: z.boolean().default(false) });
const keyReference = reference.extend({ key: z.string() });

const containerShape = z.looseObject({
  name: z.string(),
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
            fieldRef: z.looseObject({ fieldPath: z.string() }).optional(),
          })
          .optional(),
      }),
    )
    .default([]),
  envFrom: z
    .array(z.strictObject({ configMapRef: reference.optional(), secretRef: reference.optional() }))
    .default([]),
  ports: z.array(z.object({ name: z.string(), containerPort: z.number() })).default([]),
  volumeMounts: z.array(z.looseObject({ name: z.string(), mountPath: z.string() })).default([]),
  startupProbe: z.looseObject({}).optional(),
  readinessProbe: z.looseObject({}).optional(),
  livenessProbe: z.looseObject({}).optional(),
  securityContext: z.looseObject({}).optional(),
  resources: z
    .object({
      requests: z.record(z.string(), z.string()),
      limits: z.record(z.string(), z.string()),
    })
    .optional(),
});

const workloadShape = z.looseObject({
  kind: z.enum(['Deployment', 'StatefulSet', 'Job']),
  metadata: z.looseObject({ name: z.string() }),
  spec: z.looseObject({
    replicas: z.number().default(1),
    template: z.looseObject({
      metadata: z.looseObject({ labels: z.record(z.string(), z.string()) }),
      spec: z.looseObject({
        initContainers: z.array(containerShape).default([]),
        containers: z.array(containerShape).min(1),
        volumes: z.array(z.looseObject({ name: z.string() })).default([]),
        serviceAccountName: z.string().optional(),
        terminationGracePeriodSeconds: z.number().optional(),
        automountServiceAccountToken: z.boolean().optional(),
        securityContext: z.looseObject({}).optional(),
      }),
    }),
  }),
});

export type Container = z.infer<typeof containerShape>;
export type Pod = z.infer<typeof workloadShape>['spec']['template']['spec'];

export interface Workload {
  readonly name: string;
  readonly kind: 'Deployment' | 'StatefulSet' | 'Job';
  readonly replicas: number;
  /** Labels of its pods. */
  readonly labels: Readonly<Record<string, string>>;
  /** The first container. The others are sidecars. */
  readonly main: Container;
  /** All containers, init containers included. */
  readonly containers: readonly Container[];
  readonly pod: Pod;
}

const POD_KINDS = ['Deployment', 'StatefulSet', 'DaemonSet', 'Job', 'CronJob', 'Pod'];

/** The objects that have pods. @throws Error for a kind with pods that this check does not support. */
export function workloadsIn(objects: readonly Manifest[]): Workload[] {
  return objects
    .filter(({ kind }) => POD_KINDS.includes(kind))
    .map((object) => {
      const { kind, metadata, spec } = workloadShape.parse(object);
      const { metadata: template, spec: pod } = spec.template;
      const [main] = pod.containers;
      if (!main) throw new Error(`${kind} ${metadata.name} has no container`);
      return {
        name: metadata.name,
        kind,
        replicas: spec.replicas,
        labels: template.labels,
        main,
        containers: [...pod.containers, ...pod.initContainers],
        pod,
      };
    });
}

/** The TypeScript file that a container of this repository's image runs. Undefined for other images. */
export function mainFileOf({ command: [program, file] }: Container): string | undefined {
  return program === 'node' ? file : undefined;
}
