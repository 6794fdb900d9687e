/** Matches the endings of field names whose values are never logged. Case and separators do not matter. */
const WITHHELD =
  /(authorization|cookie|password|passwd|secret|token|apikey|privatekey|signingkey|keyring|email|emailaddress|body)s?$/;

const REPLACEMENT = '[redacted]';

/** Maximum nesting of logged values. Deeper values are left out. Our code logs no such field on purpose. */
const MAX_DEPTH = 6;

/**
 * Forms of credentials and addresses. They are recognized anywhere in a line, because the message of a driver or
 * another system may contain a value that no field name marks.
 *
 * A match starts only after a character that the form does not allow. Without this rule, each letter of a long word
 * would be tried as a start, which takes time quadratic in the length of the word.
 */
const FORMS: readonly (readonly [RegExp, string])[] = [
  [/\b(Bearer|Basic)\s+[\w.~+/=-]+/gi, `$1 ${REPLACEMENT}`],
  [/\brms_(?:test_)?[a-z0-9]{12}_[A-Za-z0-9]+/g, REPLACEMENT],
  [/\bwhsec_[A-Za-z0-9+/=]+/g, REPLACEMENT],
  [/(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w-]+/g, REPLACEMENT],
  [/:\/\/[^\s/:@"\\]*:[^\s/@"\\]+@/g, `://${REPLACEMENT}@`],
  [/(?<![\w.+%-])[\w.+%-]+@[\w-]+(\.[\w-]+)+/g, REPLACEMENT],
];

/** Removes credentials and e-mail addresses from a finished log line. */
export function scrubText(line: string): string {
  return FORMS.reduce((text, [form, replacement]) => text.replace(form, replacement), line);
}

/** Returns the fields of a log event without values that must not be logged. */
export function redactFields(fields: object): Record<string, unknown> {
  return redactObject(fields, 0, new Set());
}

function redactObject(
  fields: object,
  depth: number,
  above: ReadonlySet<object>,
): Record<string, unknown> {
  const seen = new Set(above).add(fields);
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      isWithheld(name) && value !== undefined ? REPLACEMENT : redactValue(value, depth + 1, seen),
    ]),
  );
}

function redactValue(value: unknown, depth: number, above: ReadonlySet<object>): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (value === null || typeof value !== 'object') return value;
  if (value instanceof Error) return describeError(value, depth, above);
  if (value instanceof Date || value instanceof URL) return value;
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (depth > MAX_DEPTH || above.has(value)) return '[…]';
  if (Array.isArray(value)) {
    const seen = new Set(above).add(value);
    return value.map((entry) => redactValue(entry, depth + 1, seen));
  }
  return redactObject(value, depth, above);
}

/**
 * Returns those parts of an error that may be logged. Leaves out `detail`, because a database driver puts values of
 * rows there.
 */
function describeError(error: Error, depth: number, above: ReadonlySet<object>): unknown {
  if (depth > MAX_DEPTH || above.has(error)) return '[…]';
  const seen = new Set(above).add(error);
  const fields = Object.fromEntries(
    ['code', 'constraint', 'table', 'reason', 'field']
      .map((name) => [name, Reflect.get(error, name)])
      .filter(([, value]) => typeof value === 'string' || typeof value === 'number'),
  );
  return {
    type: error.name,
    message: error.message,
    stack: error.stack,
    ...fields,
    ...(error.cause !== undefined && { cause: redactValue(error.cause, depth + 1, seen) }),
  };
}

function isWithheld(name: string): boolean {
  return WITHHELD.test(name.toLowerCase().replace(/[^a-z]/g, ''));
}
