/** Features whose platform tables a schema needs. */
export type Capability = 'leases' | 'outbox' | 'consumer' | 'idempotency';

export interface SchemaDefinition {
  readonly name: string;
  /** Folder of its own numbered migrations. */
  readonly folder: URL;
  readonly capabilities: readonly Capability[];
}

const service = (name: string, ...capabilities: Capability[]): SchemaDefinition => ({
  name,
  folder: new URL(`../${name}/migrations/`, import.meta.url),
  capabilities: ['leases', ...capabilities],
});

/** Every schema of the database, in the order of their migration. */
export const SCHEMAS: readonly SchemaDefinition[] = [
  {
    name: 'gateway',
    folder: new URL('../../gateway/migrations/', import.meta.url),
    capabilities: ['leases', 'consumer'],
  },
  service('destinations', 'outbox', 'idempotency'),
  service('returns', 'outbox', 'consumer'),
  service('dispositions', 'outbox', 'idempotency'),
  service('fraud', 'outbox', 'idempotency'),
  service('carts', 'outbox'),
  service('webhooks', 'outbox', 'consumer', 'idempotency'),
];

/** @throws Error for an unknown schema, which is a programming error. */
export function schemaNamed(name: string): SchemaDefinition {
  const found = SCHEMAS.find((schema) => schema.name === name);
  if (!found) throw new Error(`there is no schema named ${name}`);
  return found;
}

/** The login role of a schema's process. */
export function roleOf(schema: string): string {
  return `rms_${schema}`;
}
