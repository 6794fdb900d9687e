import { z } from 'zod';

// The kinds of field in responses and payloads. Every key is always present; an unknown value is null. The description
// of a kind is the form of its values. `means` adds what the field means.

export const amount = () => z.string().meta({ description: 'decimal number as text' });
export const nullableText = () => z.string().nullable();
export const nullableId = () => z.int().nullable();
export const time = () =>
  z.string().nullable().meta({ format: 'date-time', description: 'YYYY-MM-DDThh:mm:ss+00:00' });
/** A time that is always known. */
export const requiredTime = () =>
  z.string().meta({ format: 'date-time', description: 'YYYY-MM-DDThh:mm:ss+00:00' });
export const id = () => z.int().min(1);

/** Adds what a field means, in front of the form of its values. The OpenAPI documents have a sentence for each field. */
export function means<S extends z.ZodType>(schema: S, text: string): S {
  const form = schema.description;
  const description = form === undefined ? text : `${text} (${form})`;
  // An object with a name becomes a reference. Beside it zod would forbid all properties, and zod-openapi keeps that.
  return schema.meta({ description, ...(isNamed(schema) && { additionalProperties: undefined }) });
}

function isNamed(schema: z.ZodType): boolean {
  return schema instanceof z.ZodObject && schema.meta()?.id !== undefined;
}
