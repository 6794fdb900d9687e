import { createRequire } from 'node:module';
import { trace } from '@opentelemetry/api';
import { type DestinationStream, type LoggerOptions, pino, stdTimeFunctions } from 'pino';
import { standardOutput } from './log-output.ts';

/** Logs events with fields. Never log bodies, credentials, or names and addresses of shoppers. */
export type Logger = pino.Logger;

/**
 * Creates a logger that writes one JSON object in each line, with the current trace.
 *
 * @param o.service the part of the process that logs; a field of every line.
 * @param o.level lines of lower levels are not written.
 * @param o.fields more fields of every line.
 * @param o.pretty whether `pino-pretty` makes the lines readable. Production images do not have it.
 * @param o.destination output for the lines; standard output by default.
 * @throws Error when `pretty` is set and `pino-pretty` is not installed.
 */
export function createLogger(o: {
  service: string;
  level: string;
  fields?: () => object;
  pretty?: boolean;
  destination?: DestinationStream;
}): Logger {
  const options: LoggerOptions = {
    level: o.level,
    base: { service: o.service },
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }), log: redactFields },
    // Keep errors as redactFields has described them. The serializer of pino would change them again.
    serializers: { err: (described: unknown) => described },
    hooks: { streamWrite: scrubText },
    mixin: () => ({ ...traceFields(), ...o.fields?.() }),
  };
  return pino(options, o.destination ?? (o.pretty ? prettyOutput() : standardOutput()));
}

function traceFields(): Record<string, string> {
  const span = trace.getActiveSpan()?.spanContext();
  return span ? { trace_id: span.traceId, span_id: span.spanId } : {};
}

function prettyOutput(): DestinationStream {
  const require = createRequire(import.meta.url);
  try {
    const { prettyFactory }: typeof import('pino-pretty') = require('pino-pretty');
    const pretty = prettyFactory({
      ignore: 'pid,hostname,service,span_id',
      messageFormat: '{service}: {msg}',
    });
    return { write: (line) => standardOutput().write(pretty(line) ?? line) };
  } catch (cause) {
    throw new Error(
      'LOG_PRETTY needs the development dependency pino-pretty; set LOG_PRETTY=false',
      {
        cause,
      },
    );
  }
}

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
function scrubText(line: string): string {
  return FORMS.reduce((text, [form, replacement]) => text.replace(form, replacement), line);
}

/** Returns the fields of a log event without values that must not be logged. */
function redactFields(fields: object): Record<string, unknown> {
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
