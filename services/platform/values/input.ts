import type { Timestamp } from '@bufbuild/protobuf/wkt';
import { z } from 'zod';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { invalidField } from './errors.ts';
import { MAX_ID } from './ids.ts';
import { blank, cleanText, fits, snakeCase } from './text.ts';

/**
 * Validates a request message with a schema. The handler of each RPC calls this once.
 *
 * Each error text of a schema is a rule, such as "is required". It follows the name of the field.
 *
 * @throws DomainError INVALID_ARGUMENT for the first invalid field, with its path in the proto, such as
 *   `items[0].line_item_id`.
 */
export function parseInput<S extends z.ZodType>(schema: S, message: unknown): z.output<S> {
  const result = schema.safeParse(message);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw invalidField(fieldPath(issue?.path ?? []), issue?.message ?? 'is invalid');
}

function fieldPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((before, part) => {
    if (typeof part === 'number') return `${before}[${part}]`;
    const name = snakeCase(String(part));
    return before === '' ? name : `${before}.${name}`;
  }, '');
}

/** An id that a JSON number represents exactly. In a proto zero means "no id", so it is invalid here. */
export const id = z
  .bigint()
  .refine((value) => value >= 1n && value <= MAX_ID, 'must be an id from 1 to 2^53-1');

/** The actor and the shop of a request. `callerInterceptor` has already checked both. */
export const callerShape = {
  shopId: id,
  actor: z.custom<Actor>((value) => value !== undefined, 'is required'),
};

/** A text of at most `max` Unicode characters that can be stored and sent. */
export function text(max: number) {
  return z
    .string()
    .refine(cleanText, 'must hold neither NUL nor half of a surrogate pair')
    .refine((value) => fits(value, max), `must be at most ${max} characters`);
}

/** A {@link text} that is not only white space. */
export function requiredText(max: number) {
  return text(max).refine((value) => !blank(value), 'is required');
}

/** The name that a caller gives a write, so that a repeat has no second effect. */
export const idempotencyKey = requiredText(200);

/**
 * {@link idempotencyKey} of RPCs where it may be absent. A request without a key gets undefined.
 */
export const optionalIdempotencyKey = text(200).transform((key) => key || undefined);

/** The range of times: 0001-01-01 to 9999-12-31, in seconds since 1970. */
const FIRST_SECOND = -62_135_596_800n;
const LAST_SECOND = 253_402_300_799n;

/** A time. It is truncated to milliseconds. */
export const time = z
  .custom<Timestamp>()
  .refine(
    ({ seconds, nanos }) =>
      seconds >= FIRST_SECOND && seconds <= LAST_SECOND && nanos >= 0 && nanos < 1_000_000_000,
    'must lie in the years 1 to 9999',
  )
  .transform(({ seconds, nanos }) => new Date(Number(seconds) * 1_000 + Math.trunc(nanos / 1e6)));
