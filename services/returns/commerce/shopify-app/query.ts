/** Maximum length of the query of an install. Characters. */
const QUERY_MAX = 4_096;

/**
 * Returns the parameters of a query that a browser sent. Undefined when the query is too long, or has a name more than
 * once. In the second case it would not be clear what was signed.
 */
export function parseQuery(query: string): URLSearchParams | undefined {
  if (query.length > QUERY_MAX) return undefined;
  const params = new URLSearchParams(query);
  const names = [...params.keys()];
  return new Set(names).size === names.length ? params : undefined;
}
