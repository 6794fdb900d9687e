import { z } from 'zod';
import { LISTED_WITHOUT_BOUNDS, removeKnownRules } from './arguments.ts';
import { LISTED_AS, withoutNoise } from './result-schema.ts';

/** A JSON schema (2020-12) whose root is an object. */
export interface ObjectSchema {
  readonly type: 'object';
  readonly [key: string]: unknown;
}

/** The schema of a tool's arguments in `tools/list`. */
export function listedArguments(schema: z.ZodObject): ObjectSchema {
  return objectSchema(schema, { io: 'input', hasAllRules: false });
}

/** The schema of a tool's arguments with all rules, for the documentation. */
export function argumentRules(schema: z.ZodObject): ObjectSchema {
  return objectSchema(schema, { io: 'input', hasAllRules: true });
}

/** The schema of a tool's result in `tools/list`. */
export function listedResult(schema: z.ZodObject): ObjectSchema {
  const listed = objectSchema(schema, { io: 'output', hasAllRules: true });
  return Object.assign({}, withoutNoise(listed), { type: 'object' } as const);
}

/**
 * Generates the JSON schema of a tool's arguments or result. All its parts are inline, because clients do not resolve
 * references. It removes the ids that OpenAPI documents use, because zod would generate references from them.
 */
function objectSchema(
  schema: z.ZodObject,
  o: { io: 'input' | 'output'; hasAllRules: boolean },
): ObjectSchema {
  const made = z.toJSONSchema(schema, {
    io: o.io,
    reused: 'inline',
    unrepresentable: 'any',
    metadata: z.registry(),
    override: ({ zodSchema, jsonSchema }) => {
      const known = z.globalRegistry.get(zodSchema) ?? {};
      const { id: _, override, [LISTED_AS]: listed, ...more } = known;
      const { [LISTED_WITHOUT_BOUNDS]: isWithoutBounds, ...meta } = more;
      if (listed) {
        for (const keyword of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, keyword);
        Object.assign(jsonSchema, listed);
      } else {
        Object.assign(jsonSchema, meta, override);
        removeNoise(jsonSchema);
      }
      if (!o.hasAllRules) removeKnownRules(jsonSchema, isWithoutBounds === true);
    },
  });
  const { $schema: _, ...rest } = made;
  return Object.assign({}, withSingleTypes(rest), { type: 'object' } as const);
}

/**
 * Removes keywords that are repeated in many places and do not help an assistant. The parser still checks each rule.
 */
function removeNoise(schema: Record<string, unknown>): void {
  delete schema['x-service-bound'];
  // zod adds the bounds of safe integers to every integer.
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  // `minLength` is almost the same rule: only a text of white space breaks this pattern alone.
  if (schema.pattern === '\\S') delete schema.pattern;
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
