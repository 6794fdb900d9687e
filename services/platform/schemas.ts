/** Features that need tables of the platform in a schema. */
export type Capability = 'leases' | 'failover' | 'outbox' | 'consumer' | 'idempotency';

export interface SchemaDefinition {
  readonly name: string;
  /** Folder with the numbered migrations of the schema. */
  readonly folder: URL;
  readonly capabilities: readonly Capability[];
}

const service = (name: string, ...capabilities: Capability[]): SchemaDefinition => ({
  name,
  folder: new URL(`../${name}/migrations/`, import.meta.url),
  capabilities: ['leases', 'failover', ...capabilities],
});

/** Every schema of the database, in the order of their migration. */
export const SCHEMAS: readonly SchemaDefinition[] = [
  {
    name: 'gateway',
    folder: new URL('../../gateway/migrations/', import.meta.url),
    capabilities: ['leases', 'failover', 'consumer'],
  },
  service('destinations', 'outbox', 'idempotency'),
  service('returns', 'outbox', 'consumer'),
  service('dispositions', 'outbox', 'idempotency'),
  service('fraud', 'outbox', 'idempotency'),
  service('carts', 'outbox'),
  service('webhooks', 'outbox', 'consumer', 'idempotency'),
];

/** Returns a schema. @throws Error for an unknown name, which is a bug. */
export function schemaNamed(name: string): SchemaDefinition {
  const found = SCHEMAS.find((schema) => schema.name === name);
  if (!found) throw new Error(`there is no schema named ${name}`);
  return found;
}

/** The login role of the process that owns a schema. */
export function roleOf(schema: string): string {
  return `rms_${schema}`;
}
