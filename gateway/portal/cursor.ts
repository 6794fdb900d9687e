import { z } from 'zod';
import { invalid } from './fields.ts';

// Cursors of lists that the gateway itself makes. They are opaque to the page.

/** The place in a list that is ordered by time and id. */
const place = z.object({
  at: z.iso.datetime().transform((text) => new Date(text)),
  id: z.string().max(64),
});
export type Place = z.infer<typeof place>;

export function cursorOf({ at, id }: Place): string {
  return Buffer.from(JSON.stringify({ at, id })).toString('base64url');
}

/** Undefined for the first page. @throws ConnectError INVALID_ARGUMENT for a text that is no cursor. */
export function placeOf(cursor: string): Place | undefined {
  if (cursor === '') return undefined;
  const parsed = place.safeParse(jsonOf(cursor));
  if (!parsed.success) throw invalid('cursor', 'must be the next_cursor of a page');
  return parsed.data;
}

function jsonOf(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}
