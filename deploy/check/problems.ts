import { z } from 'zod';
import { type Data, dataIn, helpersIn } from './data.ts';
import { type Container, mainFileOf, type Workload, workloadsIn } from './manifests.ts';
import type { Manifest } from './render.ts';
import { shapeOf } from './shapes.ts';

/** Keys of earlier releases, with what to do instead. */
const REMOVED: Readonly<Record<string, string>> = {
  'public-base-url': 'the key is now PUBLIC_BASE_URL',
  'trusted-proxies': 'the key is now TRUSTED_PROXIES',
  brokers: 'the key is now KAFKA_BROKERS',
  MCP_CONSENT: 'it has no effect any more: remove it',
};

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
  const removed = REMOVED[variable];
  if (removed) return removed;
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
