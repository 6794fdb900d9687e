import { z } from 'zod';

// The kinds of field in responses and payloads. Every key is always present; an unknown value is null. The description
// of a kind says the form of its values. `means` adds the meaning of the field.

export const amount = () => z.string().meta({ description: 'decimal number as text' });
export const nullableText = () => z.string().nullable();
export const nullableId = () => z.int().nullable();
export const time = () =>
  z.string().nullable().meta({ format: 'date-time', description: 'YYYY-MM-DDThh:mm:ss+00:00' });
/** A time that is never null. */
export const requiredTime = () =>
  z.string().meta({ format: 'date-time', description: 'YYYY-MM-DDThh:mm:ss+00:00' });
export const id = () => z.int().min(1);

/**
 * Adds the meaning of a field before the form of its values. So the OpenAPI documents have a sentence for each field.
 */
export function means<S extends z.ZodType>(schema: S, text: string): S {
  const form = schema.description;
  const description = form === undefined ? text : `${text} (${form})`;
  // A named object becomes a reference. Without this, zod writes `additionalProperties: false` beside the reference,
  // and zod-openapi keeps it.
  return schema.meta({ description, ...(isNamed(schema) && { additionalProperties: undefined }) });
}

function isNamed(schema: z.ZodType): boolean {
  return schema instanceof z.ZodObject && schema.meta()?.id !== undefined;
}
