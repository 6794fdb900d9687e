import { z } from 'zod';
import { invalidField } from '../../platform/errors.ts';
import { jsonOf } from '../../platform/text.ts';

const MAX_PAGE = 200;
const DEFAULT_PAGE = 50;

/** The number of rows on a page: 1 to 200; 0 means 50. */
export const pageSize = z
  .int()
  .refine((value) => value >= 0 && value <= MAX_PAGE, `must be from 1 to ${MAX_PAGE}`)
  .transform((value) => value || DEFAULT_PAGE);

/** Returns a cursor for the position of the last row of a page. Callers must not interpret it. */
export function encodeCursor(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/**
 * Parses a cursor. Undefined when it is empty, which means the first page.
 *
 * @throws DomainError INVALID_ARGUMENT for a text that {@link encodeCursor} did not return.
 */
export function decodeCursor<S extends z.ZodType>(
  cursor: string,
  parts: S,
): z.output<S> | undefined {
  if (cursor === '') return undefined;
  const result = parts.safeParse(jsonOf(Buffer.from(cursor, 'base64url').toString('utf8')));
  if (!result.success) throw invalidField('cursor', 'must be a cursor returned by this service');
  return result.data;
}
