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
  return { ...rest, type: 'object' };
}
