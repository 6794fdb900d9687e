import { isParameter } from '../../services/contract/ignored.ts';
import { isObject } from '../../services/contract/json-object.ts';
import type { Operation } from '../../services/contract/operation.ts';
import { queryOf } from '../http/query.ts';

/** Maximum length of the link, because many clients read at most 16 kB of headers. Characters. */
const LINK_MAX = 8_000;

/**
 * The link to the next page of a list (RFC 8288): the address of the request with the cursor of the next page. It keeps
 * only parameters that the operation has.
 *
 * @param target path and query, as the client sent them.
 * @param page the body of the response, in any version.
 * @returns undefined for the last page, for operations without pages, and for an address that is too long for a header.
 */
export function nextPageLink(
  { id }: Pick<Operation, 'id'>,
  target: string,
  page: unknown,
): string | undefined {
  if (!isParameter(id, 'cursor') || !isObject(page)) return undefined;
  const { next_cursor: cursor } = page;
  if (typeof cursor !== 'string') return undefined;
  const [path = ''] = target.split('?', 1);
  const kept = [...queryOf({ url: target })].filter(
    ([name]) => isParameter(id, name) && name !== 'cursor',
  );
  const link = `<${path}?${new URLSearchParams([...kept, ['cursor', cursor]])}>; rel="next"`;
  return link.length <= LINK_MAX ? link : undefined;
}
