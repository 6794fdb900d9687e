/** What a schema needs of the platform's own tables. */
export type Capability = 'leases' | 'outbox' | 'consumer' | 'idempotency';

export interface SchemaDefinition {
  readonly name: string;
  /** Where its own numbered migrations lie. */
  readonly folder: URL;
  readonly capabilities: readonly Capability[];
}

const service = (name: string, ...capabilities: Capability[]): SchemaDefinition => ({
  name,
  folder: new URL(`../${name}/migrations/`, import.meta.url),
  capabilities: ['leases', ...capabilities],
});

/** Every schema of the database, in the order in which they are migrated. */
export const SCHEMAS: readonly SchemaDefinition[] = [
  {
    name: 'gateway',
    folder: new URL('../../gateway/migrations/', import.meta.url),
    capabilities: ['leases'],
  },
  service('destinations', 'outbox', 'idempotency'),
  service('returns', 'outbox', 'consumer'),
  service('dispositions', 'outbox', 'idempotency'),
  service('fraud', 'outbox', 'idempotency'),
  service('carts', 'outbox'),
  service('webhooks', 'consumer', 'idempotency'),
];

/** Throws when there is no such schema: a programming error. */
export function schemaNamed(name: string): SchemaDefinition {
  const found = SCHEMAS.find((schema) => schema.name === name);
  if (!found) throw new Error(`there is no schema named ${name}`);
  return found;
}

/** The role that the process of a schema logs in as. */
export function roleOf(schema: string): string {
  return `rms_${schema}`;
}
