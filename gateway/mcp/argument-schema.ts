import type { z } from 'zod';

/** The key of a schema's metadata that {@link listedWithoutBounds} sets. */
export const LISTED_WITHOUT_BOUNDS = 'x-listed-without-bounds';

/**
 * Marks a text that an assistant copies from a result or from another tool, or makes up as a short key. Its bounds tell
 * an assistant nothing, so `tools/list` does not have them.
 */
export function listedWithoutBounds<S extends z.ZodType>(schema: S): S {
  return schema.meta({ [LISTED_WITHOUT_BOUNDS]: true });
}

type Schema = Record<string, unknown>;

/**
 * Removes rules of an argument that an assistant follows without reading them, because every assistant pays for them in
 * each conversation. The parser still checks them, and `docs/mcp/tools.md` has them. `additionalProperties: false` stays,
 * because clients that hold a model to the schema require it.
 */
export function removeKnownRules(schema: Schema, isWithoutBounds: boolean): void {
  if (isWithoutBounds) {
    delete schema.maxLength;
    delete schema.pattern;
  }
  // Assistants send no empty text where one is required.
  if (schema.minLength === 1) delete schema.minLength;
  // Ids come from results, and all are from 1. Numbers such as a quantity have a maximum, too.
  if (schema.minimum === 1 && schema.maximum === undefined) delete schema.minimum;
  // A list of values has at most each value once.
  if (valuesOf(schema.items).length === schema.maxItems) delete schema.maxItems;
}

function valuesOf(items: unknown): readonly unknown[] {
  const { enum: values }: Schema = Object(items);
  return Array.isArray(values) ? values : [];
}
