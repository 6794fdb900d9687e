import { z } from 'zod';
import { printable } from '../../services/contract/printable.ts';

/** Invalid arguments: one line for each fault, with the field and the rule. */
export interface ArgumentFault {
  readonly ok: false;
  readonly faults: readonly string[];
}

const FAULTS_MAX = 20;
const NAME_MAX = 100;

/** Validates the arguments of a call. Absent arguments count as `{}`, null as an absent optional. Never throws. */
export function readArguments<I extends z.ZodObject>(
  schema: I,
  args: unknown,
): { readonly ok: true; readonly value: z.output<I> } | ArgumentFault {
  const given = args ?? {};
  if (typeof given !== 'object' || Array.isArray(given)) {
    return { ok: false, faults: ['arguments must be an object.'] };
  }
  const parsed = schema.safeParse(withoutNulls(schema, given));
  if (parsed.success) return { ok: true, value: parsed.data };
  const faults = parsed.error.issues.slice(0, FAULTS_MAX).flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') return [`${nameOf(issue.path)} ${issue.message}.`];
    return issue.keys.slice(0, FAULTS_MAX).map((key) => unknownKey(schema, [...issue.path, key]));
  });
  return { ok: false, faults };
}

/** As in REST, null counts as absent for an optional field. Assistants send null for fields they do not need. */
function withoutNulls(schema: unknown, value: unknown): unknown {
  if (isOmittable(schema)) return withoutNulls(schema.unwrap(), value);
  if (schema instanceof z.ZodArray && Array.isArray(value)) {
    return value.map((entry) => withoutNulls(schema.element, entry));
  }
  if (!(schema instanceof z.ZodObject) || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value;
  const fieldOf = (key: string): unknown =>
    Object.hasOwn(schema.shape, key) ? schema.shape[key] : undefined;
  const given = Object.entries(value).filter(
    ([key, part]) => part !== null || !isOmittable(fieldOf(key)),
  );
  return Object.fromEntries(given.map(([key, part]) => [key, withoutNulls(fieldOf(key), part)]));
}

function isOmittable(schema: unknown): schema is z.ZodOptional | z.ZodDefault {
  return schema instanceof z.ZodOptional || schema instanceof z.ZodDefault;
}

function unknownKey(schema: z.ZodObject, path: readonly PropertyKey[]): string {
  const known = Object.keys(schema.shape);
  if (path.length > 1) return `${nameOf(path)} is not known.`;
  const rest = known.length === 0 ? 'This tool takes none.' : `Known are ${known.join(', ')}.`;
  return `${nameOf(path)} is not an argument of this tool. ${rest}`;
}

/** Such as `items[0].note`. The name comes from the caller and appears in a text, so it is cut and cleaned. */
function nameOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'arguments';
  const name = path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    return text === '' ? String(part) : `${text}.${String(part)}`;
  }, '');
  return printable(name, NAME_MAX);
}
