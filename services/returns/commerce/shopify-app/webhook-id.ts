import { z } from 'zod';
import { MAX_ID } from '../../../platform/ids.ts';

/** An id in a body of Shopify: a number, or its text. */
export const webhookId = z
  .union([z.number(), z.string().regex(/^\d{1,16}$/)])
  .transform(Number)
  .refine((value) => Number.isSafeInteger(value) && value >= 1)
  .transform(BigInt)
  .refine((value) => value <= MAX_ID);
