import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { workloadsIn } from '../../deploy/check/problems.ts';
import { renderOverlay } from '../../deploy/check/render.ts';
import { isAllowedPort, isPublicAddress } from '../../services/platform/outbound/guard.ts';
import { renderWith } from './components.ts';
import { documentedCalls, edgesBetween, policiesIn } from './policies.ts';

const objects = renderWith([
  'network-policies',
  'network-policies/ipv6',
  'in-cluster-stores',
  'kafka-topics',
  'mail',
  'network-policies/mail',
]);
const policies = policiesIn(objects);
const workloads = workloadsIn(objects);
const processes = workloads.filter(({ kind }) => kind === 'Deployment');
const edges = edgesBetween(policies, workloads);
const isStore = (name: string) => ['postgres', 'kafka'].includes(name);
const named = (name: string) => policies.find(({ metadata }) => metadata.name === name);

describe('the network policies', () => {
  test('deny all other connections in both directions', () => {
    expect(named('default-deny')?.spec).toEqual({
      podSelector: { matchLabels: {}, matchExpressions: [] },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [],
      egress: [],
    });
  });

  test('allow exactly the calls of docs/architecture.md', () => {
    const calls = edges.filter((edge) => edge.endsWith(':8080'));
    expect(calls.map((edge) => edge.replace(':8080', '')).toSorted()).toEqual(documentedCalls());
    expect(calls.length).toBeGreaterThan(0);
  });

  test('allow exactly the targets in the manifests', () => {
    const targets = processes.flatMap(({ name, main }) =>
      main.env
        .filter((one) => one.name.endsWith('_TARGET'))
        .map(({ value }) => `${name} -> ${value?.replace('dns:///', '')}`),
    );
    expect(edges.filter((edge) => edge.endsWith(':8080')).toSorted()).toEqual(targets.toSorted());
  });

  test('allow every process with a database to reach PostgreSQL, and the services and a gateway with mails to reach Kafka', () => {
    const clients = workloads.map(({ name }) => name).filter((name) => !isStore(name));
    const withDatabase = clients.filter((name) => !name.startsWith('topics'));
    const listeners = clients.filter((name) => !name.startsWith('migrate'));
    const stores = edges.filter((edge) => !edge.endsWith(':8080')).toSorted();
    expect(stores).toEqual(
      [
        ...withDatabase.map((name) => `${name} -> postgres:5432`),
        ...listeners.flatMap((name) => [`${name} -> kafka:9092`, `${name} -> kafka:9093`]),
      ].toSorted(),
    );
  });

  test('allow every pod to query the name servers, over UDP and TCP', () => {
    expect(named('dns')?.spec.podSelector).toEqual({ matchLabels: {}, matchExpressions: [] });
    const kubeSystem = { 'kubernetes.io/metadata.name': 'kube-system' };
    expect(named('dns')?.spec.egress).toEqual([
      {
        to: [{ namespaceSelector: { matchLabels: kubeSystem, matchExpressions: [] } }],
        ports: [
          { port: 53, protocol: 'UDP' },
          { port: 53, protocol: 'TCP' },
        ],
      },
    ]);
  });

  test('allow connections from outside of the namespace only to the gateway, and from Prometheus', () => {
    const open = policies.filter(({ spec }) => spec.ingress.some(({ from }) => from.length === 0));
    expect(open.map(({ metadata }) => metadata.name)).toEqual(['gateway']);
    const foreign = policies.filter(({ spec }) =>
      spec.ingress.some(({ from }) => from.some((peer) => peer.namespaceSelector ?? peer.ipBlock)),
    );
    expect(foreign.map(({ metadata }) => metadata.name)).toEqual(['monitoring']);
  });

  test('allow connections out of the cluster only from webhooks, returns and the gateway', () => {
    const outward = policies.filter(({ spec }) =>
      spec.egress.some(({ to }) => to.some(({ ipBlock }) => ipBlock)),
    );
    expect(outward.map(({ metadata }) => metadata.name).toSorted()).toEqual([
      'gateway-to-internet',
      'gateway-to-internet-ipv6',
      'gateway-to-mail',
      'returns-to-internet',
      'returns-to-internet-ipv6',
      'webhooks-to-internet',
      'webhooks-to-internet-ipv6',
    ]);
    for (const { spec } of outward) {
      for (const { to } of spec.egress) {
        expect(to.map(({ ipBlock }) => ipBlock?.except.length ?? 0)).not.toContain(0);
      }
    }
  });
});

test('do not allow mails to private addresses', () => {
  const [mail, internet] = ['gateway-to-mail', 'webhooks-to-internet'].map(
    (name) => named(name)?.spec.egress[0]?.to[0]?.ipBlock?.except,
  );
  expect(mail).toEqual(internet);
});

test('also allow the connections of the demo in the dev overlay', () => {
  const dev = renderOverlay('deploy/overlays/dev');
  const all = edgesBetween(policiesIn(dev), workloadsIn(dev));
  const more = all.filter((edge) => !edges.includes(edge));
  const services = processes.map(({ name }) => name).filter((name) => name !== 'gateway');
  expect(more.toSorted()).toEqual(
    [
      'edge -> gateway:8080',
      'gateway -> demo:2525',
      'gateway -> demo:8090',
      'webhooks -> demo:8080',
      'demo -> postgres:5432',
      ...services.map((name) => `demo -> ${name}:8080`),
    ].toSorted(),
  );
  // Its broker has no TLS.
  const left = /^(migrate|topics)-|^gateway -> kafka:9093$/;
  expect(edges.filter((edge) => !all.includes(edge) && !left.test(edge))).toEqual([]);
});

describe('the addresses that no webhook reaches', () => {
  const blocks = ['webhooks-to-internet', 'webhooks-to-internet-ipv6'].map(
    (name) => named(name)?.spec.egress[0]?.to[0]?.ipBlock,
  );
  const except = blocks.flatMap((block) => block?.except ?? []);

  test('are the same as in the code', () => {
    const code = readFileSync(
      new URL('../../services/platform/outbound/guard.ts', import.meta.url),
      'utf8',
    );
    const lists = code.matchAll(/const RESERVED_V\d = \[([\s\S]*?)\]/g);
    const rejected = [...lists].flatMap(([, list = '']) =>
      [...list.matchAll(/'([^']+\/\d+)'/g)].map(([, range = '']) => range),
    );
    expect(except.toSorted()).toEqual(rejected.toSorted());
  });

  test.each(except)('%s: the code rejects its first address', (range) => {
    expect(isPublicAddress(range.replace(/\/\d+$/, ''))).toBe(false);
  });

  test.each(['gateway', 'returns'])('are the same for %s', (name) => {
    expect(named(`${name}-to-internet`)?.spec.egress[0]?.to).toEqual(
      named('webhooks-to-internet')?.spec.egress[0]?.to,
    );
  });

  test.each(['webhooks', 'returns'])('the ports of %s are the same as in the code', (name) => {
    const ports = named(`${name}-to-internet`)?.spec.egress[0]?.ports ?? [];
    const isOpen = (port: number) =>
      ports.some((one) => port >= one.port && port <= (one.endPort ?? one.port));
    for (const port of [22, 53, 80, 442, 443, 444, 1023, 1024, 8443, 65_535]) {
      expect({ port, isOpen: isOpen(port) }).toEqual({ port, isOpen: isAllowedPort(port) });
    }
  });
});
