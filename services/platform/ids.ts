/** Largest id: what a JSON number holds exactly. */
export const MAX_ID = 2n ** 53n - 1n;
/** What an id in a path or a query must be, for texts that begin with its name. */
export const ID_RULE = `must be a whole number from 1 to ${MAX_ID}`;

/** Parses an id from 1 to {@link MAX_ID}; undefined when no object can have it. */
export function parseId(text: string): bigint | undefined {
  if (!/^[1-9]\d{0,15}$/.test(text)) return undefined;
  const id = BigInt(text);
  return id <= MAX_ID ? id : undefined;
}
