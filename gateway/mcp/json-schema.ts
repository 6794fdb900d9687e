import { z } from 'zod';

/** A JSON schema (2020-12) whose root is an object. */
export interface ObjectSchema {
  readonly type: 'object';
  readonly [key: string]: unknown;
}

/**
 * Generates the JSON schema of a tool's arguments or result. All parts are inline, because clients do not resolve
 * references. The ids that OpenAPI documents use are removed, because zod would generate references from them.
 */
export function objectSchema(schema: z.ZodObject, io: 'input' | 'output'): ObjectSchema {
  const made = z.toJSONSchema(schema, {
    io,
    reused: 'inline',
    unrepresentable: 'any',
    metadata: z.registry(),
    override: ({ zodSchema, jsonSchema }) => {
      const known = z.globalRegistry.get(zodSchema) ?? {};
      const { id: _, override, ...meta } = known;
      Object.assign(jsonSchema, meta, override);
      delete jsonSchema['x-service-bound'];
      // zod adds the bounds of safe integers to every integer. Remove them, because they repeat a hundred times.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) {
        delete jsonSchema.minimum;
        delete jsonSchema.maximum;
      }
    },
  });
  const { $schema: _, ...rest } = made;
  return Object.assign({}, withSingleTypes(rest), { type: 'object' } as const);
}

/** Keywords that describe a value. Other keywords restrict it. */
const ANNOTATIONS = new Set(['title', 'description', 'default', 'examples', 'deprecated']);

/**
 * Replaces a list of types such as `["string", "null"]` by `anyOf` with one type each. Clients that translate
 * schemas to another dialect may not support lists of types.
 */
function withSingleTypes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSingleTypes);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, part]) => [name, withSingleTypes(part)]);
  const schema: Readonly<Record<string, unknown>> = Object.fromEntries(entries);
  const { type } = schema;
  if (!Array.isArray(type)) return schema;
  const isAnnotation = ([name]: [string, unknown]) => ANNOTATIONS.has(name);
  const annotations = Object.entries(schema).filter(isAnnotation);
  const limits = Object.entries(schema).filter((entry) => !isAnnotation(entry));
  const single = (name: unknown) =>
    name === 'null' ? { type: name } : { ...Object.fromEntries(limits), type: name };
  return { ...Object.fromEntries(annotations), anyOf: type.map(single) };
}
