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

/** An id in an address; 0 when it is not an id. A filter with 0 matches everything, and no object has this id. */
export function idOr0(text: string | undefined): string {
  return text !== undefined && /^[1-9]\d{0,15}$/.test(text) ? text : '0';
}
