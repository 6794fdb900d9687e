import { ToolError } from './tool.ts';

interface Row {
  readonly id: bigint;
}

/**
 * Returns a page of a list. The service returned the whole list, whose length is limited by a quota of the shop.
 *
 * @param o.cursor the `nextCursor` of the previous page.
 * @throws ToolError for an invalid cursor.
 */
export function pageOf<T extends Row>(
  rows: readonly T[],
  o: { limit: number; cursor?: string | undefined },
): { readonly rows: readonly T[]; readonly nextCursor: string | null } {
  const after = afterOf(o.cursor);
  const rest = rows.filter(({ id }) => id > after);
  const page = rest.slice(0, o.limit);
  const last = page.at(-1);
  return { rows: page, nextCursor: last && rest.length > page.length ? cursorOf(last) : null };
}

function cursorOf(row: Row): string {
  return Buffer.from(`after:${row.id}`).toString('base64url');
}

function afterOf(cursor: string | undefined): bigint {
  if (cursor === undefined) return 0n;
  const [, id] = /^after:(\d{1,16})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (id !== undefined) return BigInt(id);
  throw new ToolError(
    'cursor must be the next_cursor of a previous page. Omit it to get the first page.',
  );
}
