import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { Workload } from '../../deploy/check/problems.ts';
import type { Manifest } from '../../deploy/check/render.ts';
import { PROCESS_NAMES, SERVICE_NAMES } from '../../services/platform/services.ts';

const selectorShape = z.object({
  matchLabels: z.record(z.string(), z.string()).default({}),
  matchExpressions: z
    .array(z.object({ key: z.string(), operator: z.literal('In'), values: z.array(z.string()) }))
    .default([]),
});

const peersShape = z
  .array(
    z.object({
      podSelector: selectorShape.optional(),
      namespaceSelector: selectorShape.optional(),
      ipBlock: z.object({ cidr: z.string(), except: z.array(z.string()).default([]) }).optional(),
    }),
  )
  .default([]);
const portsShape = z.array(
  z.object({
    port: z.number(),
    endPort: z.number().optional(),
    protocol: z.string().default('TCP'),
  }),
);

const policyShape = z.looseObject({
  metadata: z.looseObject({ name: z.string() }),
  spec: z.looseObject({
    podSelector: selectorShape,
    policyTypes: z.array(z.string()),
    ingress: z.array(z.object({ from: peersShape, ports: portsShape })).default([]),
    egress: z.array(z.object({ to: peersShape, ports: portsShape })).default([]),
  }),
});

export type Policy = z.infer<typeof policyShape>;
export type Selector = z.infer<typeof selectorShape>;

export function policiesIn(objects: readonly Manifest[]): Policy[] {
  return objects
    .filter(({ kind }) => kind === 'NetworkPolicy')
    .map((one) => policyShape.parse(one));
}

function selects(selector: Selector, labels: Readonly<Record<string, string>>): boolean {
  return (
    Object.entries(selector.matchLabels).every(([key, value]) => labels[key] === value) &&
    selector.matchExpressions.every(({ key, values }) => values.includes(labels[key] ?? ''))
  );
}

/** `caller -> callee:port` between pods of the namespace, for connections that the policies of both pods allow. */
export function edgesBetween(
  policies: readonly Policy[],
  workloads: readonly Workload[],
): string[] {
  const pairs = workloads.flatMap((from) => workloads.map((to) => [from, to] as const));
  return pairs.flatMap(([from, to]) => {
    const out = policies
      .filter(({ spec }) => selects(spec.podSelector, from.labels))
      .flatMap(({ spec }) => spec.egress)
      .filter((rule) => names(rule.to, to))
      .flatMap(({ ports }) => ports);
    const into = policies
      .filter(({ spec }) => selects(spec.podSelector, to.labels))
      .flatMap(({ spec }) => spec.ingress)
      .filter((rule) => rule.from.length === 0 || names(rule.from, from))
      .flatMap(({ ports }) => ports);
    const open = new Set(into.map(({ port }) => port));
    const both = new Set(out.map(({ port }) => port).filter((port) => open.has(port)));
    return [...both].map((port) => `${from.name} -> ${to.name}:${port}`);
  });
}

function names(peers: z.infer<typeof peersShape>, { labels }: Workload): boolean {
  return peers.some(({ podSelector }) => podSelector && selects(podSelector, labels));
}

/** The list "Calls" of docs/architecture.md, as `caller -> callee`. */
export function documentedCalls(): string[] {
  const page = readFileSync(new URL('../../docs/architecture.md', import.meta.url), 'utf8');
  const [, section = ''] = /^## Calls\n([\s\S]*?)^## /m.exec(page) ?? [];
  const rows = section.matchAll(/^- ([^:]+): (.+(?:\n {2}.+)*)$/gm);
  const edges = [...rows].flatMap(([, callers = '', calls = '']) => {
    if (callers.startsWith('listeners')) {
      return [...calls.matchAll(/(\w+) calls (\w+)/g)].map(([, from, to]) => `${from} -> ${to}`);
    }
    const called = calls.includes('all services')
      ? SERVICE_NAMES
      : SERVICE_NAMES.filter(isIn(calls.split(',')[0] ?? ''));
    return PROCESS_NAMES.filter(isIn(callers)).flatMap((from) =>
      called.map((to) => `${from} -> ${to}`),
    );
  });
  return [...new Set(edges)].toSorted();
}

function isIn(text: string) {
  return (name: string): boolean => new RegExp(`\\b${name}\\b`).test(text);
}
