import { z } from 'zod';
import { INELIGIBILITY_CODES } from '../vocabulary.ts';
import { means } from './response-fields.ts';

/** The shapes of error bodies in released versions (interface: Errors). */

const message = means(z.string(), 'For people: what is wrong');
const code = <const T extends string>(text: T) =>
  means(z.literal(text), 'For programs: always this code');
/** The schema of the object `errors` in an error body. */
export const inside = <S extends z.ZodRawShape>(shape: S) =>
  means(z.object(shape), 'What is wrong');

export const unauthorized = z
  .object({
    errors: means(z.literal('Unauthorized.'), 'Always this text; `WWW-Authenticate` says more'),
  })
  .meta({ id: 'Unauthorized' });

export const forbidden = z
  .object({
    message: means(
      z.literal('This action is unauthorized.'),
      'Always this text; `WWW-Authenticate` names the missing scope',
    ),
  })
  .meta({ id: 'Forbidden' });

/** The body of validation errors, and of all errors without a body of their own. */
export const messageError = z
  .object({
    message: means(z.string(), 'For people: the field and its rule, or what to do'),
    errors: means(z.object({}).meta({ maxProperties: 0 }), 'Always an empty object'),
  })
  .meta({ id: 'MessageError' });

export const webhookNotFound = z
  .object({ errors: inside({ code: code('NOT_FOUND') }) })
  .meta({ id: 'WebhookNotFound' });

export const webhookRefused = z
  .object({ errors: inside({ code: code('FAILED_TO_CREATE_WEBHOOK'), message }) })
  .meta({ id: 'WebhookRefused' });

export const notReplayable = z
  .object({ errors: inside({ code: code('DELIVERY_NOT_REPLAYABLE'), message }) })
  .meta({ id: 'DeliveryNotReplayable' });

export const notCancellable = z
  .object({ errors: inside({ code: code('NOT_CANCELLABLE'), message }) })
  .meta({ id: 'ReturnNotCancellable' });

export const notEligible = z
  .object({
    errors: inside({
      code: code('NOT_ELIGIBLE'),
      message,
      lines: means(
        z.array(
          z.object({
            provider_line_item_id: means(z.int(), 'The order line'),
            code: means(z.enum(INELIGIBILITY_CODES), 'Why it cannot be returned'),
          }),
        ),
        'The refused lines',
      ),
    }),
  })
  .meta({ id: 'NotEligible' });

export const noOrderLookUp = z
  .object({ errors: inside({ code: code('NO_ORDER_LOOKUP'), message }) })
  .meta({ id: 'NoOrderLookup' });

export const keyReused = z
  .object({ errors: inside({ code: code('IDEMPOTENCY_KEY_REUSED'), message }) })
  .meta({ id: 'IdempotencyKeyReused' });

export const destinationNotFound = z
  .object({ code: code('NOT_FOUND'), message })
  .meta({ id: 'DestinationNotFound' });

export const errorsMessage = z
  .object({ errors: inside({ message }) })
  .meta({ id: 'ErrorsMessage' });

export const processNotFound = z
  .object({ errors: inside({ message, code: code('NOT_FOUND') }) })
  .meta({ id: 'ProcessNotFound' });

/** The body of every error in `unstable` (RFC 9457). It replaces all bodies above. */
export const problem = z
  .object({
    type: means(z.string(), 'Always `about:blank`; `code` says which error it is'),
    title: means(z.string(), 'The HTTP status in words'),
    status: means(z.int(), 'The HTTP status'),
    detail: means(z.string(), 'For people: what is wrong, and what to do'),
    code: means(z.string(), 'For programs: which error it is. The page `/docs/errors` lists them'),
    errors: means(
      z.array(
        z.object({
          field: means(z.string(), 'Path of the field, such as `items[0].note`'),
          message: means(z.string(), 'The field and the rule that it breaks'),
        }),
      ),
      'The invalid fields, at most 50; empty for other errors',
    ),
  })
  .meta({ id: 'Problem' });
