import { z } from 'zod';

/** Metadata of a schema that {@link listedWithoutBounds} sets. */
export const LISTED_WITHOUT_BOUNDS = 'x-listed-without-bounds';

/**
 * Marks a text that an assistant copies from a result or another tool, or makes up as a short key. An assistant does
 * not need the bounds of such a text, so `tools/list` leaves them out.
 */
export function listedWithoutBounds<S extends z.ZodType>(schema: S): S {
  return schema.meta({ [LISTED_WITHOUT_BOUNDS]: true });
}

const RESTRICTIONS = z.registry();

/**
 * An optional argument that restricts what a write does. An empty text or list for it is rejected, because the write
 * would then do more than is meant. Null counts as absent, since some clients cannot omit an argument.
 */
export function restriction<S extends z.ZodType>(schema: S): z.ZodOptional<S> {
  const field = schema.optional();
  RESTRICTIONS.add(field);
  return field;
}

export function isRestriction(schema: z.core.$ZodType): boolean {
  return RESTRICTIONS.has(schema);
}

type Schema = Record<string, unknown>;

/**
 * Removes rules of an argument that assistants follow even without reading them, because each assistant reads the list
 * in each conversation and pays for it. The parser still checks these rules, and `docs/mcp/tools.md` lists them.
 * `additionalProperties: false` stays, because clients that force a model's output to match the schema require it.
 */
export function removeKnownRules(schema: Schema, isWithoutBounds: boolean): void {
  if (isWithoutBounds) {
    delete schema.maxLength;
    delete schema.pattern;
  }
  // Assistants send no empty text where a text is required.
  if (schema.minLength === 1) delete schema.minLength;
  // Assistants copy ids from results, and every id is at least 1. A number that is not an id, such as a quantity, also
  // has a maximum, so it keeps its minimum.
  if (schema.minimum === 1 && schema.maximum === undefined) delete schema.minimum;
  // An assistant sends each value of a list at most once.
  if (valuesOf(schema.items).length === schema.maxItems) delete schema.maxItems;
}

function valuesOf(items: unknown): readonly unknown[] {
  const { enum: values }: Schema = Object(items);
  return Array.isArray(values) ? values : [];
}
