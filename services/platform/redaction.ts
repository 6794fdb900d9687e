/** Endings of field names whose values are never logged. Case and separators do not matter. */
const WITHHELD =
  /(authorization|cookie|password|passwd|secret|token|apikey|privatekey|signingkey|keyring|email|emailaddress|body)s?$/;

const REPLACEMENT = '[redacted]';

/** Values nested deeper than this are left out. We log no such field on purpose. */
const MAX_DEPTH = 6;

/**
 * Credentials and addresses recognised by their form, anywhere in a line.
 *
 * A driver or another system may put a value into its message, where no field name marks it. A form starts only after a
 * character that cannot belong to it. To try every letter of a long word would take time quadratic in its length.
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

/** Returns the fields of a log event without the values that must not be logged. */
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

/** Returns the loggable parts of an error. Leaves out `detail`, where a database driver puts values of rows. */
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
