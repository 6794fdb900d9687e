import { z } from 'zod';
import type { Container } from './manifests.ts';
import type { Manifest } from './render.ts';

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
