/** Features that need tables of the platform in a schema. */
export type Capability = 'leases' | 'failover' | 'outbox' | 'consumer' | 'idempotency';

interface ServiceDefinition {
  readonly capabilities: readonly Capability[];
  /** The services whose answers its callers wait for. No cycle of these is allowed. */
  readonly calls: readonly string[];
  /** The services whose events it handles. It also calls them, for events that Kafka lost. */
  readonly listensTo: readonly string[];
}

/**
 * The services, in the order of their migration. Every other list of services is made from this table, also those of
 * the manifests (`deploy/write.ts`). The gateway calls all services. `rpc/callers.ts` says which RPCs are allowed.
 */
export const SERVICES = {
  destinations: { capabilities: ['outbox', 'idempotency'], calls: [], listensTo: [] },
  returns: {
    capabilities: ['outbox', 'consumer'],
    calls: ['destinations'],
    listensTo: ['fraud'],
  },
  dispositions: { capabilities: ['outbox', 'idempotency'], calls: ['returns'], listensTo: [] },
  fraud: { capabilities: ['outbox', 'idempotency'], calls: ['returns'], listensTo: [] },
  carts: { capabilities: ['outbox'], calls: [], listensTo: [] },
  webhooks: {
    capabilities: ['outbox', 'consumer', 'idempotency'],
    calls: ['returns'],
    listensTo: ['returns'],
  },
} as const satisfies Readonly<Record<string, ServiceDefinition>>;

export type ServiceName = keyof typeof SERVICES;
export type ProcessName = ServiceName | 'gateway';

export const SERVICE_NAMES: readonly ServiceName[] = Object.keys(SERVICES) as ServiceName[];

/** Our own processes. In a cluster, their service accounts have the same names. */
export const PROCESS_NAMES: readonly ProcessName[] = ['gateway', ...SERVICE_NAMES];

/** The services that a process calls. */
export function calledBy(name: ProcessName): readonly ServiceName[] {
  if (name === 'gateway') return SERVICE_NAMES;
  const { calls, listensTo } = SERVICES[name];
  const called: readonly string[] = [...calls, ...listensTo];
  return SERVICE_NAMES.filter((one) => called.includes(one));
}

/** A value for each service. */
export function forServices<T>(make: (name: ServiceName) => T): Readonly<Record<ServiceName, T>> {
  const entries = SERVICE_NAMES.map((name) => [name, make(name)]);
  return Object.fromEntries(entries) as Record<ServiceName, T>;
}

type TargetVariable = `${Uppercase<ServiceName>}_TARGET`;

/** The variable with the gRPC name of a service. */
export function targetVariable(name: ServiceName): TargetVariable {
  return `${name.toUpperCase()}_TARGET` as TargetVariable;
}

/** A value for each {@link targetVariable}. */
export function forTargets<T>(make: (name: ServiceName) => T): Readonly<Record<TargetVariable, T>> {
  const entries = SERVICE_NAMES.map((name) => [targetVariable(name), make(name)]);
  return Object.fromEntries(entries) as Record<TargetVariable, T>;
}
