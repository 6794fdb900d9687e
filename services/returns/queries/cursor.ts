import { z } from 'zod';
import { invalidField } from '../../platform/errors.ts';

const MAX_PAGE = 200;
const DEFAULT_PAGE = 50;

/** Rows of a page: 1 to 200, 50 when 0. */
export const pageSize = z
  .int()
  .refine((value) => value >= 0 && value <= MAX_PAGE, `must be from 1 to ${MAX_PAGE}`)
  .transform((value) => value || DEFAULT_PAGE);

/** Makes a cursor: where the previous page ended. Callers must not read it. */
export function encodeCursor(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/**
 * Reads a cursor; undefined when it is empty, which means the first page.
 *
 * @throws DomainError INVALID_ARGUMENT for anything that {@link encodeCursor} did not make.
 */
export function decodeCursor<S extends z.ZodType>(
  cursor: string,
  parts: S,
): z.output<S> | undefined {
  if (cursor === '') return undefined;
  const result = parts.safeParse(parsedJson(Buffer.from(cursor, 'base64url').toString('utf8')));
  if (!result.success) throw invalidField('cursor', 'is none that this service gave out');
  return result.data;
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
