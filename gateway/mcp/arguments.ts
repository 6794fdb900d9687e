import { z } from 'zod';
import { printable } from '../../services/platform/text.ts';

/** The problems of invalid arguments. Each is one sentence with the field and its rule. */
export interface InvalidArguments {
  readonly ok: false;
  readonly problems: readonly string[];
}

const PROBLEMS_MAX = 20;
/** Maximum length of a name in a problem. Characters. */
const NAME_MAX = 100;

/**
 * Parses the arguments of a call. Absent arguments count as `{}`. Null counts as absent where a field is optional.
 * Never throws.
 */
export function parseArguments<I extends z.ZodObject>(
  schema: I,
  args: unknown,
): { readonly ok: true; readonly value: z.output<I> } | InvalidArguments {
  const received = args ?? {};
  if (typeof received !== 'object' || Array.isArray(received)) {
    return { ok: false, problems: ['arguments must be an object.'] };
  }
  const parsed = schema.safeParse(withoutNulls(schema, received));
  if (parsed.success) return { ok: true, value: parsed.data };
  const problems = parsed.error.issues.slice(0, PROBLEMS_MAX).flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') return [`${nameOf(issue.path)} ${issue.message}.`];
    return issue.keys.slice(0, PROBLEMS_MAX).map((key) => unknownKey(schema, [...issue.path, key]));
  });
  return { ok: false, problems };
}

/**
 * Removes optional fields that are null, because assistants send null for fields that they do not need. REST does the
 * same.
 */
function withoutNulls(schema: unknown, value: unknown): unknown {
  if (isOmittable(schema)) return withoutNulls(schema.unwrap(), value);
  if (schema instanceof z.ZodArray && Array.isArray(value)) {
    return value.map((entry) => withoutNulls(schema.element, entry));
  }
  if (!(schema instanceof z.ZodObject) || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value;
  const fieldOf = (key: string): unknown =>
    Object.hasOwn(schema.shape, key) ? schema.shape[key] : undefined;
  const present = Object.entries(value).filter(
    ([key, part]) => part !== null || !isOmittable(fieldOf(key)),
  );
  return Object.fromEntries(present.map(([key, part]) => [key, withoutNulls(fieldOf(key), part)]));
}

function isOmittable(schema: unknown): schema is z.ZodOptional | z.ZodDefault {
  return schema instanceof z.ZodOptional || schema instanceof z.ZodDefault;
}

function unknownKey(schema: z.ZodObject, path: readonly PropertyKey[]): string {
  const known = Object.keys(schema.shape);
  if (path.length > 1) return `${nameOf(path)} is an unknown field.`;
  const rest =
    known.length === 0 ? 'This tool has no arguments.' : `Its arguments are ${known.join(', ')}.`;
  return `${nameOf(path)} is not an argument of this tool. ${rest}`;
}

/** The name of a field, such as `items[0].note`. It is cut and cleaned, because it may be a text of the caller. */
function nameOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'arguments';
  const name = path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    return text === '' ? String(part) : `${text}.${String(part)}`;
  }, '');
  return printable(name, NAME_MAX);
}
