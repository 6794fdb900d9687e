import { z } from 'zod';

/** Metadata of a schema: the schema that `tools/list` shows in its place. */
export const LISTED_AS = 'x-listed-as';

/** Makes `tools/list` show `jsonSchema` in place of this schema. The tool still checks its result with this schema. */
export function listedAs<S extends z.ZodType>(jsonSchema: object, schema: S): S {
  return schema.meta({ [LISTED_AS]: jsonSchema });
}

/**
 * Marks an object whose fields are described by another tool or document. `tools/list` shows `text` in place of its
 * fields, because each assistant pays for each word of the list in each conversation.
 */
export function described<S extends z.ZodType>(text: string, schema: S): S {
  return listedAs({ type: 'object', description: text }, schema);
}

/** An object that another tool returns with the same fields. */
export function asIn<S extends z.ZodType>(tool: string, schema: S): S {
  return described(`As ${tool} returns it`, schema);
}

/** Metadata of a schema that {@link undescribed} sets. */
const UNDESCRIBED = 'x-undescribed';

/**
 * Returns the fields of a resource of the REST API without their descriptions. The descriptions are for readers of the
 * OpenAPI documents, and are longer than an assistant needs.
 */
export function undescribed<S extends z.core.$ZodLooseShape>(shape: S): S {
  const fields = Object.entries(shape).map(([name, field]) => {
    if (!(field instanceof z.ZodType)) throw new Error(`${name} is not a schema`);
    return [name, field.clone(field.def).meta({ [UNDESCRIBED]: true })];
  });
  // `fromEntries` loses the type of the keys. Each field keeps its type.
  return Object.fromEntries(fields) as S;
}

/**
 * Keywords that `tools/list` leaves out of result schemas: bounds, which only arguments need, and keywords that repeat
 * what names already say. For example, `required` lists all properties, and a `format` says that `created_at` is a
 * time.
 */
const NOISE = new Set([
  ...['minimum', 'maximum', 'minLength', 'maxLength', 'pattern', 'minItems', 'maxItems'],
  ...['propertyNames', 'required', 'const', 'format'],
]);

/** Maximum number of values of an `enum` in `tools/list`. Longer lists are only in the resource `rms://vocabulary`. */
const VALUES_MAX = 3;

type Schema = Readonly<Record<string, unknown>>;

/** Removes from the schema of a result what an assistant does not need. Names, types and descriptions stay. */
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

/** Keeps the names of properties, which may look like keywords: a property may be called `required`. */
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

/** Whether this is the keyword `description`, and not a property with this name. */
function isDescription(name: string, part: unknown): boolean {
  return name === UNDESCRIBED || (name === 'description' && typeof part === 'string');
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
