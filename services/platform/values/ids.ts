/** Largest id. A JSON number represents integers exactly up to it. */
export const MAX_ID = 2n ** 53n - 1n;
/** The rule for an id in a path or a query, as the text after the name of the field. */
export const ID_RULE = `must be a whole number from 1 to ${MAX_ID}`;

/** Parses an id from 1 to {@link MAX_ID}. Returns undefined for any other text. */
export function parseId(text: string): bigint | undefined {
  if (!/^[1-9]\d{0,15}$/.test(text)) return undefined;
  const id = BigInt(text);
  return id <= MAX_ID ? id : undefined;
}
