import { z } from 'zod';

/** A JSON schema (2020-12) whose root is an object, as tools show their arguments and answers. */
export interface ObjectSchema {
  readonly type: 'object';
  readonly [key: string]: unknown;
}

/**
 * The JSON schema of a tool's arguments or answer. Everything is written out in place, as clients want
 * it: ids that mark shapes for OpenAPI documents would lead to names that nobody resolves.
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
      // That every JSON number is exact says nothing, and it says it a hundred times.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) {
        delete jsonSchema.minimum;
        delete jsonSchema.maximum;
      }
    },
  });
  const { $schema: _, ...rest } = made;
  return Object.assign({}, withSingleTypes(rest), { type: 'object' } as const);
}

/** Words about a value; all else of a schema limits it. */
const ANNOTATIONS = new Set(['title', 'description', 'default', 'examples', 'deprecated']);

/**
 * The same with one type in each schema: `["string", "null"]` becomes two. Clients that map schemas to
 * another dialect may know no lists of types.
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
