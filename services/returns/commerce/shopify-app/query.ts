/** Maximum length of the query of an install. Characters. */
const QUERY_MAX = 4_096;

/**
 * The parameters of a query that a browser sent; undefined when it is too long or repeats a name, which would make it
 * unclear what was signed.
 */
export function parseQuery(query: string): URLSearchParams | undefined {
  if (query.length > QUERY_MAX) return undefined;
  const params = new URLSearchParams(query);
  const names = [...params.keys()];
  return new Set(names).size === names.length ? params : undefined;
}
