import { z } from 'zod';
import { PROCESS_DETAILS_BYTES_MAX, PROCESS_DETAILS_MAX } from '../limits.ts';
import { type NumberText, numberOf } from '../validate/exact-json.ts';
import { PROCESS_REFUSALS } from '../vocabulary.ts';
import { inside } from './errors.ts';
import { ownBound, textError } from './fields.ts';
import { means } from './response-fields.ts';

export type DetailValue = string | number | NumberText | boolean | null;
export type ProcessBody = Readonly<Record<string, DetailValue>>;

/**
 * Optional body of process return. Its values go into the additional details of new orders, and into the timeline.
 * Validation does not change them, so that no key is lost.
 */
export const processBody = z
  .custom<ProcessBody>()
  .superRefine((body: unknown, context) => {
    const error = detailsError(body);
    if (error) context.addIssue({ code: 'custom', ...error });
  })
  .meta({
    override: {
      type: 'object',
      description: 'Details of new orders, for the timeline too. At most 16 KiB',
      maxProperties: PROCESS_DETAILS_MAX,
      additionalProperties: { type: ['string', 'number', 'boolean', 'null'] },
      ...ownBound,
    },
  });

/**
 * `true`: the return is queued, now or earlier, or was skipped because of an open instant refund. Otherwise an object
 * with `errors`. The status is 200 for both.
 */
export const processResponse = z.union([
  z.literal(true),
  z
    .object({
      errors: inside({
        message: means(z.string(), 'For people: why the return cannot be processed'),
        code: means(
          z.enum(PROCESS_REFUSALS),
          '`UNPROCESSABLE_FLAGGED_RETURN`: a user must look at it first. `UNPROCESSABLE_RETURN`: it is closed, cancelled or expired',
        ),
      }),
    })
    .meta({ id: 'ProcessRefusal' }),
]);

function detailsError(body: unknown): { message: string; path?: string[] } | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return { message: 'must be an object' };
  }
  const entries: [string, unknown][] = Object.entries(body);
  if (entries.length > PROCESS_DETAILS_MAX) {
    return { message: `must have at most ${PROCESS_DETAILS_MAX} keys` };
  }
  for (const [key, value] of entries) {
    const message = textError(key) ?? valueError(value);
    if (message !== undefined) return { message, path: [key] };
  }
  const bytes = entries.reduce((sum, [key, value]) => sum + sizeOf(key) + sizeOf(value), 0);
  return bytes > PROCESS_DETAILS_BYTES_MAX ? { message: 'must be at most 16 KiB' } : undefined;
}

/** Size of a value. For a text it is the UTF-8 bytes of the text itself, without JSON escapes. */
function sizeOf(value: unknown): number {
  return Buffer.byteLength(typeof value === 'string' ? value : JSON.stringify(value));
}

function valueError(value: unknown): string | undefined {
  if (typeof value === 'string') return textError(value);
  if (value === null || typeof value === 'boolean') return undefined;
  if (Number.isFinite(numberOf(value))) return undefined;
  return 'must be a string, a number, true, false or null';
}
