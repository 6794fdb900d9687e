// Numbers as they were sent: JSON has no limit on digits, a double has. A number that a double would
// not write in the same way is kept as its text, and JSON.stringify writes that text.

/** A number as JSON text; made by {@link exactNumber} and {@link parseExactJson} only. */
export interface NumberText {
  readonly rawJSON: string;
}

/** Part of Node; the library of TypeScript does not know it yet. */
interface SourceAccess {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): NumberText;
  isRawJSON(value: unknown): value is NumberText;
}
const sourceAccess = JSON as unknown as SourceAccess;

/**
 * Parses JSON so that JSON.stringify writes every number as it stands in `text`: `1.10`, and integers
 * above 2^53 digit by digit.
 *
 * @throws SyntaxError when it is no JSON.
 */
export function parseExactJson(text: string): unknown {
  return sourceAccess.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? exactNumber(source) : value,
  );
}

/** A JSON number: as a number where that is written in the same way, else as its text. */
export function exactNumber(text: string): number | NumberText {
  const value = Number(text);
  return String(value) === text ? value : sourceAccess.rawJSON(text);
}

/** The nearest double of a number in either form; undefined for anything else. */
export function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return sourceAccess.isRawJSON(value) ? Number(value.rawJSON) : undefined;
}

/** The text of a number in either form. */
export function numberText(value: number | NumberText): string {
  return typeof value === 'number' ? String(value) : value.rawJSON;
}
