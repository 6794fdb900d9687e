import { ToolError } from '../tool.ts';

interface Row {
  readonly id: bigint;
}

/** The lists whose pages are cut here. A cursor contains its list, so that another list rejects it. */
type PagedList = 'destinations' | 'webhooks';

/**
 * Returns a page of a list. The service returned the whole list, whose length is limited by a quota of the shop.
 *
 * @param o.cursor the `nextCursor` of the previous page.
 * @throws ToolError for an invalid cursor.
 */
export function pageOf<T extends Row>(
  list: PagedList,
  rows: readonly T[],
  o: { limit: number; cursor?: string | undefined },
): { readonly rows: readonly T[]; readonly nextCursor: string | null } {
  const after = afterOf(list, o.cursor);
  const rest = rows.filter(({ id }) => id > after);
  const page = rest.slice(0, o.limit);
  const last = page.at(-1);
  return {
    rows: page,
    nextCursor: last && rest.length > page.length ? cursorOf(list, last) : null,
  };
}

function cursorOf(list: PagedList, row: Row): string {
  return Buffer.from(`${list}:${row.id}`).toString('base64url');
}

function afterOf(list: PagedList, cursor: string | undefined): bigint {
  if (cursor === undefined) return 0n;
  const text = Buffer.from(cursor, 'base64url').toString();
  const [, of, id] = /^([a-z]+):(\d{1,16})$/.exec(text) ?? [];
  if (of === list && id !== undefined) return BigInt(id);
  throw new ToolError(
    'cursor must be the next_cursor of a previous page of this list. Omit it to get the first page.',
  );
}
