import { type Capability, SERVICE_NAMES, SERVICES } from '../services.ts';

export interface SchemaDefinition {
  readonly name: string;
  /** Folder with the numbered migrations of the schema. */
  readonly folder: URL;
  readonly capabilities: readonly Capability[];
}

/** Every schema of the database, in the order of their migration. */
export const SCHEMAS: readonly SchemaDefinition[] = [
  {
    name: 'gateway',
    folder: new URL('../../../gateway/migrations/', import.meta.url),
    capabilities: ['leases', 'failover', 'consumer'],
  },
  ...SERVICE_NAMES.map(
    (name): SchemaDefinition => ({
      name,
      folder: new URL(`../../${name}/migrations/`, import.meta.url),
      capabilities: ['leases', 'failover', ...SERVICES[name].capabilities],
    }),
  ),
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
