import { z } from 'zod';
import { kafkaSecurityShape } from '../../services/platform/kafka/config.ts';
import { SCHEMAS } from '../../services/platform/postgres/schemas.ts';
import { busShape, postgresUrl, processShape } from '../../services/platform/process/config.ts';
import { transportShape } from '../../services/platform/security/transport-security.ts';
import type { Manifest } from './render.ts';

/**
 * Reasons why rendered manifests must not go to production, one line each: images without tag or digest, parts for
 * development, and variables that no process reads. The lines contain no values, because a value may be a secret.
 */
export async function problemsIn(objects: readonly Manifest[]): Promise<string[]> {
  const workloads = workloadsIn(objects);
  const data = dataIn(objects);
  const lines = [
    ...workloads.flatMap(imageProblems),
    ...workloads.flatMap(demoWorkloads),
    ...data.flatMap(demoData),
    ...(await literalProblems(workloads)),
    ...(await keyProblems(workloads, data)),
  ];
  return [...new Set(lines)].sort();
}

function imageProblems({ kind, name, containers }: Workload): string[] {
  return containers.flatMap(({ image }) => {
    const [, tag, digest] = /^[^@]*?(?::([^/:@]+))?(?:@(.+))?$/.exec(image) ?? [];
    if (tag === 'latest' && !digest) return [`${kind} ${name}: the image ${image} can change`];
    return tag || digest ? [] : [`${kind} ${name}: the image ${image} has no tag and no digest`];
  });
}

/** Programs below `deploy` are for development: demo data, the bundled identity provider, the receiver. */
function demoWorkloads({ kind, name, containers }: Workload): string[] {
  return containers
    .filter((one) => mainFileOf(one)?.startsWith('deploy/'))
    .map((one) => `${kind} ${name}: ${mainFileOf(one)} is the bundled identity or demo data`);
}

function demoData({ kind, name, values }: Data): string[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const where = `${kind} ${unhashed(name)}: ${key}`;
    if (key === 'NODE_ENV' && value !== 'production') return [`${where} is not production`];
    return isDemoSecret(value) ? [`${where} is a demo secret`] : [];
  });
}

/** Demo secrets have a mark. In a keyring it is inside the base64 text. */
function isDemoSecret(value: string): boolean {
  const words = value.match(/[A-Za-z0-9+/]{20,}/g) ?? [];
  return [value, ...words.map((word) => Buffer.from(word, 'base64').toString('latin1'))].some(
    (text) => text.includes('dev-only'),
  );
}

/** Literals that the process does not read, or whose value it rejects. */
async function literalProblems(workloads: readonly Workload[]): Promise<string[]> {
  const lines: string[] = [];
  for (const { kind, name, containers } of workloads) {
    for (const container of containers) {
      const shape = await shapeOfContainer(container);
      if (!shape) continue;
      const helpers = helpersIn(container);
      for (const { name: variable, value } of container.env) {
        if (helpers.has(variable)) continue;
        const isUsed = value?.includes('$(');
        const problem = problemOf([shape], variable, isUsed ? undefined : value);
        if (problem) lines.push(`${kind} ${name}: ${variable}: ${problem}`);
        if (value && isDemoSecret(value))
          lines.push(`${kind} ${name}: ${variable} is a demo secret`);
      }
    }
  }
  return lines;
}

/** Keys of ConfigMaps and Secrets that none of the processes reads that use them. */
async function keyProblems(
  workloads: readonly Workload[],
  data: readonly Data[],
): Promise<string[]> {
  const containers = workloads.flatMap((one) => one.containers);
  const lines: string[] = [];
  for (const one of data) {
    const shapes = await Promise.all(containers.filter(takesWhole(one)).map(shapeOfContainer));
    const known = shapes.filter((shape) => shape !== undefined);
    const named = new Set(containers.flatMap(keysNamedIn(one)));
    // Only other software uses it.
    if (shapes.length === 0 && named.size === 0) continue;
    if (known.length < shapes.length) continue;
    for (const [key, value] of Object.entries(one.values)) {
      const problem = named.has(key) ? undefined : problemOf(known, key, value);
      if (problem) lines.push(`${one.kind} ${unhashed(one.name)}: ${key}: ${problem}`);
    }
  }
  return lines;
}

function takesWhole({ kind, name }: Data) {
  return ({ envFrom }: Container): boolean =>
    envFrom.some(({ configMapRef, secretRef }) => {
      const reference = kind === 'ConfigMap' ? configMapRef : secretRef;
      return reference?.name === name;
    });
}

function keysNamedIn({ kind, name }: Data) {
  return ({ env }: Container): string[] =>
    env.flatMap(({ valueFrom }) => {
      const from = kind === 'ConfigMap' ? valueFrom?.configMapKeyRef : valueFrom?.secretKeyRef;
      return from?.name === name ? [from.key] : [];
    });
}

/** Why none of these processes can use the variable. Without a value only the name is checked. */
function problemOf(
  shapes: readonly z.ZodRawShape[],
  variable: string,
  value: string | undefined,
): string | undefined {
  const fields = shapes.flatMap((shape) => shape[variable] ?? []);
  if (fields.length === 0) return 'no process reads it';
  if (!value) return undefined;
  const faults = fields.flatMap((field) => z.safeParse(field, value).error?.issues ?? []);
  return faults[0]?.message;
}

/** Undefined for other software, and for the programs of the demo. */
async function shapeOfContainer(container: Container): Promise<z.ZodRawShape | undefined> {
  const file = mainFileOf(container);
  return file === undefined || file.startsWith('deploy/') ? undefined : shapeOf(file);
}

/** The name without the hash that kustomize adds. */
function unhashed(name: string): string {
  return name.replace(/-[a-z0-9]{10}$/, '');
}

const dataShape = z.looseObject({
  kind: z.enum(['ConfigMap', 'Secret']),
  metadata: z.looseObject({ name: z.string() }),
  data: z.record(z.string(), z.string()).default({}),
  stringData: z.record(z.string(), z.string()).default({}),
});

type Kind = 'ConfigMap' | 'Secret';

/** A ConfigMap or Secret, with its values in plain text. */
export interface Data {
  readonly kind: Kind;
  readonly name: string;
  readonly values: Readonly<Record<string, string>>;
}

export function dataIn(objects: readonly Manifest[]): Data[] {
  return objects
    .filter(({ kind }) => kind === 'ConfigMap' || kind === 'Secret')
    .map((object) => {
      const { kind, metadata, data, stringData } = dataShape.parse(object);
      const plain = (text: string) =>
        kind === 'Secret' ? Buffer.from(text, 'base64').toString('utf8') : text;
      const decoded = Object.entries(data).map(([key, text]) => [key, plain(text)]);
      return {
        kind,
        name: metadata.name,
        values: { ...Object.fromEntries(decoded), ...stringData },
      };
    });
}

/**
 * The environment of a container: literals, ConfigMaps and Secrets, merged as by Kubernetes.
 *
 * @throws Error when a reference has no target.
 */
export function environmentOf(container: Container, data: readonly Data[]): Record<string, string> {
  const whole = container.envFrom.flatMap(({ configMapRef, secretRef }) => [
    configMapRef && allOf(data, { kind: 'ConfigMap', ...configMapRef }),
    secretRef && allOf(data, { kind: 'Secret', ...secretRef }),
  ]);
  const named: Record<string, string> = {};
  for (const { name, value, valueFrom } of container.env) {
    const { configMapKeyRef: map, secretKeyRef: secret, fieldRef } = valueFrom ?? {};
    if (map) named[name] = keyOf(data, { kind: 'ConfigMap', ...map });
    else if (secret) named[name] = keyOf(data, { kind: 'Secret', ...secret });
    else if (fieldRef) named[name] = 'a-namespace';
    // A value may use variables that are defined before it.
    else named[name] = (value ?? '').replaceAll(VARIABLE, (text, used) => named[used] ?? text);
  }
  // `env` overrides `envFrom`.
  return Object.assign({}, ...whole, named);
}

/** A variable in a value, such as `$(NAMESPACE)`. */
const VARIABLE = /\$\((\w+)\)/g;

/** Variables that exist only to be used in other values. */
export function helpersIn({ env }: Container): Set<string> {
  const uses = env.flatMap(({ value = '' }) => [...value.matchAll(VARIABLE)]);
  return new Set(uses.map(([, name = '']) => name));
}

interface Reference {
  readonly kind: Kind;
  readonly name: string;
  readonly optional: boolean;
}

function allOf(data: readonly Data[], { kind, name, optional }: Reference) {
  const found = data.find((one) => one.kind === kind && one.name === name);
  if (!found && !optional) throw new Error(`there is no ${kind} ${name}`);
  return found?.values ?? {};
}

function keyOf(data: readonly Data[], reference: Reference & { readonly key: string }): string {
  const { kind, name, key, optional } = reference;
  const value = allOf(data, reference)[key];
  if (value === undefined && !optional) throw new Error(`${kind} ${name} has no key ${key}`);
  // An empty variable counts as absent.
  return value ?? '';
}

const ROOT = new URL('../../', import.meta.url);

/** The migrator has no config.ts. It reads these variables itself. */
const migratorShape = {
  DATABASE_URL: postgresUrl,
  NODE_ENV: processShape.NODE_ENV,
  ...transportShape,
  ...Object.fromEntries(
    SCHEMAS.map(({ name }) => [`DB_PASSWORD_${name.toUpperCase()}`, z.string().min(1)]),
  ),
};

/** The command that creates topics has no config.ts either. */
const topicsShape = {
  ...kafkaSecurityShape,
  ...transportShape,
  NODE_ENV: processShape.NODE_ENV,
  KAFKA_BROKERS: busShape.KAFKA_BROKERS,
  RETENTION_DAYS: busShape.RETENTION_DAYS,
};

/**
 * The variables that a process reads: the `…Shape` of the config.ts beside its main file.
 *
 * @param mainFile path from the root of the repository.
 * @throws Error when the config.ts does not export exactly one shape.
 */
export async function shapeOf(mainFile: string): Promise<z.ZodRawShape> {
  if (mainFile === 'services/platform/postgres/migrate.ts') return migratorShape;
  if (mainFile === 'services/platform/bus/topics.ts') return topicsShape;
  const config = new URL(mainFile.replace(/main\.ts$/, 'config.ts'), ROOT);
  const module: Record<string, unknown> = await import(config.href);
  const [shape, ...others] = Object.keys(module).filter((name) => name.endsWith('Shape'));
  if (shape === undefined || others.length > 0)
    throw new Error(`${config.pathname}: must export exactly one shape`);
  return z.record(z.string(), z.instanceof(z.ZodType)).parse(module[shape]);
}

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
type Pod = z.infer<typeof workloadShape>['spec']['template']['spec'];

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
