import fc from 'fast-check';
import { valuesFor } from './arbitrary-request.ts';
import type { DocumentedOperation } from './openapi.ts';

type Json = Readonly<Record<string, unknown>>;

/** Values of parameters that break parsers, as they stand in an address. */
const HOSTILE = [
  ...['', '1', 'abc', '-1', '01', '9007199254740993', '2026-11-20T10:00:00Z', '%00', '%zz'],
  ...['2026-11-20T10:00:00%2B01:00', '%F0%9F%92%A9', '%ED%A0%80', '+', ',', 'open,,closed'],
] as const;

/**
 * The query of a request: parameters that the operation documents, mostly with valid values, and one that no operation
 * has. A parameter may be repeated.
 */
export function queriesFor(
  { query }: Pick<DocumentedOperation, 'query'>,
  document: Json,
  ids: readonly number[],
): fc.Arbitrary<string> {
  const known = query.map(({ name, schema }) => {
    const valid = valuesFor(schema, document, ids).map((value) => encoded(value));
    const value = fc.oneof(
      { weight: 3, arbitrary: valid },
      { weight: 1, arbitrary: fc.constantFrom(...HOSTILE) },
    );
    return value.map((text) => `${name}=${text}`);
  });
  const unknown = fc.constantFrom(...HOSTILE).map((text) => `x=${text}`);
  return fc.array(fc.oneof(...known, unknown), { maxLength: 4 }).map((parts) => parts.join('&'));
}

/** A list is separated by commas, as the documents say. */
function encoded(value: unknown): string {
  const text = Array.isArray(value) ? value.map(plain).join(',') : plain(value);
  return encodeURIComponent(text.toWellFormed());
}

/** A random object may have a field `toString`, so that `String` throws. */
function plain(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}
