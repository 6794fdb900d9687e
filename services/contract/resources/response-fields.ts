import { z } from 'zod';

// The kinds of field in responses and payloads. Every key is always present; an unknown value is null.

export const amount = () => z.string().meta({ description: 'Decimal amount' });
export const nullableText = () => z.string().nullable();
export const nullableId = () => z.int().nullable();
export const time = () =>
  z.string().nullable().meta({ format: 'date-time', description: 'YYYY-MM-DDThh:mm:ss+00:00' });
