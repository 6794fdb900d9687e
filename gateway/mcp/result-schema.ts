import { z } from 'zod';

/** The key of a schema's metadata with the schema that `tools/list` has in its place. */
export const LISTED_AS = 'x-listed-as';

/** Lists another JSON schema for this one. The tool still checks the whole schema. */
export function listedAs<S extends z.ZodType>(jsonSchema: object, schema: S): S {
  return schema.meta({ [LISTED_AS]: jsonSchema });
}

/**
 * Marks an object whose fields another tool or document describes. `tools/list` has `text` in place of its fields,
 * because every assistant pays for every word of that list in each conversation.
 */
export function described<S extends z.ZodType>(text: string, schema: S): S {
  return listedAs({ type: 'object', description: text }, schema);
}

/** An object that another tool returns with the same fields. */
export function asIn<S extends z.ZodType>(tool: string, schema: S): S {
  return described(`As ${tool} returns it`, schema);
}

/** The key of a schema's metadata that {@link undescribed} sets. */
const UNDESCRIBED = 'x-undescribed';

/**
 * The fields of a resource of the REST API, without their descriptions. Those are for readers of the OpenAPI documents,
 * and are longer than an assistant needs.
 */
export function undescribed<S extends z.core.$ZodLooseShape>(shape: S): S {
  const fields = Object.entries(shape).map(([name, field]) => {
    if (!(field instanceof z.ZodType)) throw new Error(`${name} is not a schema`);
    return [name, field.clone(field.def).meta({ [UNDESCRIBED]: true })];
  });
  // `fromEntries` loses the type of the keys. Each field has the same type as before.
  return Object.fromEntries(fields) as S;
}

/**
 * Bounds, which only arguments need, and keywords that repeat names: `required` those of all properties, `format` that
 * `created_at` is a time.
 */
const NOISE = new Set([
  ...['minimum', 'maximum', 'minLength', 'maxLength', 'pattern', 'minItems', 'maxItems'],
  ...['propertyNames', 'required', 'const', 'format'],
]);

/** Longer lists of values are only in the resource `rms://vocabulary`. */
const VALUES_MAX = 3;

type Schema = Readonly<Record<string, unknown>>;

/** The schema of a result with what an assistant needs to understand it: names, types and descriptions. */
export function withoutNoise(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNoise);
  if (!isSchema(value)) return value;
  if (UNDESCRIBED in value) return withoutNoise(withoutDescriptions(value));
  const kept = Object.entries(value).filter(([name, part]) => isKept(name, part));
  return Object.fromEntries(
    kept.map(([name, part]) => [
      name,
      name === 'properties' ? propertiesOf(part) : withoutNoise(part),
    ]),
  );
}

function isKept(name: string, part: unknown): boolean {
  if (NOISE.has(name) || (name === 'additionalProperties' && part === false)) return false;
  return !(name === 'enum' && Array.isArray(part) && part.length > VALUES_MAX);
}

/** The names of properties are not keywords: a property may be called `required`. */
function propertiesOf(part: unknown): unknown {
  const properties = Object.entries(Object(part));
  return Object.fromEntries(properties.map(([name, schema]) => [name, withoutNoise(schema)]));
}

function withoutDescriptions(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDescriptions);
  if (!isSchema(value)) return value;
  const kept = Object.entries(value).filter(([name, part]) => !isDescription(name, part));
  return Object.fromEntries(kept.map(([name, part]) => [name, withoutDescriptions(part)]));
}

/** Whether this is the keyword, and not a property with the name `description`. */
function isDescription(name: string, part: unknown): boolean {
  return name === UNDESCRIBED || (name === 'description' && typeof part === 'string');
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
