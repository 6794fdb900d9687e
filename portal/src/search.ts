/** Reads `?a=1&b=x` as texts, so that addresses stay readable. */
export function parseSearch(text: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(text));
}

/** Writes the texts that are not empty. */
export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (typeof value === 'string' && value !== '') params.set(name, value);
  }
  const text = params.toString();
  return text === '' ? '' : `?${text}`;
}

/** Keeps the known names of an address, for a route's `validateSearch`. */
export function known<K extends string>(...names: readonly K[]) {
  return (raw: Record<string, unknown>): { readonly [name in K]?: string } => {
    const found: { [name in K]?: string } = {};
    for (const name of names) {
      const value = raw[name];
      if (typeof value === 'string' && value !== '') found[name] = value;
    }
    return found;
  };
}

/** A list in one text, such as `open,review`. */
export function listOf(text: string | undefined): string[] {
  return text === undefined || text === '' ? [] : text.split(',');
}

/** The id of an object in an address; 0, which no object has, when it is not an id. */
export function idOr0(text: string | undefined): string {
  const isId = /^[1-9]\d{0,15}$/.test(text ?? '') && Number.isSafeInteger(Number(text));
  return isId && text !== undefined ? text : '0';
}

/** The id of a filter in an address; undefined without it. A text that is no id becomes 0, which the service rejects. */
export function filterId(text: string | undefined): string | undefined {
  return text === undefined ? undefined : idOr0(text);
}

/** As {@link idOr0}, for the messages of services. */
export function bigIdOr0(text: string | undefined): bigint {
  return BigInt(idOr0(text));
}

/**
 * The id of a filter in an address, for the messages of services: 0, which means all, without it. A text that is no id
 * becomes -1, which the services reject.
 */
export function bigFilterId(text: string | undefined): bigint {
  return text === undefined ? 0n : bigIdOr0(text) || -1n;
}

const ID_FILTERS = ['return', 'replay', 'webhook', 'destination'] as const;
const TIME_FILTERS = ['from', 'to'] as const;
type FilterName = (typeof ID_FILTERS | typeof TIME_FILTERS)[number] | 'mark';

/** The marks of returns, with their titles. */
export const MARKS = [
  ['flagged', 'Flagged for review'],
  ['fraud', 'Reported as fraud'],
] as const;

export interface UnreadFilter {
  readonly name: FilterName;
  readonly text: string;
}

/**
 * The first filter of an address that cannot be read, such as an order name instead of the id of a return. A page must
 * neither show nor offer anything then: without the filter that would be everything.
 *
 * @param readTime reads the texts of `from` and `to`.
 */
export function unreadFilter(
  search: { readonly [name in FilterName]?: string },
  readTime: (text: string) => unknown,
): UnreadFilter | undefined {
  const isRead = (name: FilterName, text: string) => {
    if (name === 'mark') return MARKS.some(([mark]) => mark === text);
    return name === 'from' || name === 'to' ? readTime(text) : idOr0(text) !== '0';
  };
  return [...ID_FILTERS, ...TIME_FILTERS, 'mark' as const]
    .map((name) => ({ name, text: search[name] ?? '' }))
    .find(({ name, text }) => text !== '' && !isRead(name, text));
}
