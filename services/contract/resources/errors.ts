import { z } from 'zod';

/** The shapes of error bodies in released versions (interface: Errors). */

export const unauthorized = z
  .object({ errors: z.literal('Unauthorized.') })
  .meta({ id: 'Unauthorized' });

export const forbidden = z
  .object({ message: z.literal('This action is unauthorized.') })
  .meta({ id: 'Forbidden' });

/** Validation failures, and all errors without a shape of their own. */
export const messageError = z
  .object({ message: z.string(), errors: z.object({}).meta({ maxProperties: 0 }) })
  .meta({ id: 'MessageError' });

export const webhookNotFound = z
  .object({ errors: z.object({ code: z.literal('NOT_FOUND') }) })
  .meta({ id: 'WebhookNotFound' });

export const webhookRefused = z
  .object({
    errors: z.object({ code: z.literal('FAILED_TO_CREATE_WEBHOOK'), message: z.string() }),
  })
  .meta({ id: 'WebhookRefused' });

export const notReplayable = z
  .object({
    errors: z.object({ code: z.literal('DELIVERY_NOT_REPLAYABLE'), message: z.string() }),
  })
  .meta({ id: 'DeliveryNotReplayable' });

export const destinationNotFound = z
  .object({ code: z.literal('NOT_FOUND'), message: z.string() })
  .meta({ id: 'DestinationNotFound' });

export const errorsMessage = z
  .object({ errors: z.object({ message: z.string() }) })
  .meta({ id: 'ErrorsMessage' });

export const processNotFound = z
  .object({ errors: z.object({ message: z.string(), code: z.literal('NOT_FOUND') }) })
  .meta({ id: 'ProcessNotFound' });

/** RFC 9457: the error body of `unstable`, instead of all shapes above. */
export const problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
    errors: z.array(z.object({ field: z.string(), message: z.string() })),
  })
  .meta({ id: 'Problem' });
