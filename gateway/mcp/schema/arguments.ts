import { z } from 'zod';
import { JSON_DEPTH_MAX } from '../../../services/contract/limits.ts';
import { isInteger, numberOf } from '../../../services/contract/validate/exact-json.ts';
import { blank } from '../../../services/platform/values/text.ts';
import { entriesIn, parseJson } from '../../http/json.ts';
import { fieldName, type Issue, keysOf, problemOf, ruleOf } from '../http/problems.ts';

/** The problems of invalid arguments. Each is one sentence with the field, its rule and what was sent. */
export interface InvalidArguments {
  readonly ok: false;
  readonly problems: readonly string[];
}

const PROBLEMS_MAX = 20;
/** Maximum number of entries in all JSON texts of one call together. A message has the same bound. */
const ENTRIES_MAX = 10_000;
/** Arguments that clients add because they cannot call a tool without arguments. */
const DUMMY = /^_*(?:random_?string|dummy)$/i;

/**
 * Parses the arguments of a call, as they are meant: {@link understood}. Absent arguments count as `{}`, also when they
 * are an empty text or an empty list, as PHP encodes a map without entries. Never throws.
 */
export function parseArguments<I extends z.ZodObject>(
  schema: I,
  args: unknown,
): { readonly ok: true; readonly value: z.output<I> } | InvalidArguments {
  const received = understood(schema, hasNone(args) ? {} : args, jsonReader());
  const empty = emptyRestrictions(schema, received);
  if (empty.length > 0) return { ok: false, problems: empty };
  const meant = withoutDummies(schema, received);
  const parsed = schema.safeParse(meant, { error: ruleOf });
  if (parsed.success) return { ok: true, value: parsed.data };
  const problems = parsed.error.issues.slice(0, PROBLEMS_MAX).flatMap((issue: Issue) => {
    if (issue.code !== 'unrecognized_keys') return [problemOf(issue, meant, 'arguments')];
    const keys = (issue.keys ?? []).slice(0, PROBLEMS_MAX);
    return keys.map((key) => unknownKey(schema, [...keysOf(issue), key]));
  });
  return { ok: false, problems: [...new Set(problems)] };
}

function emptyRestrictions(schema: z.ZodObject, args: unknown): string[] {
  const isEmpty = ([key, value]: [string, unknown]) => {
    const field = fieldOf(schema, key);
    return field !== undefined && isRestriction(field) && hasNone(value);
  };
  const names = Object.entries(Object(args)).filter(isEmpty);
  return names.map(
    ([name]) => `${name} must not be empty. To call this tool without this restriction, omit it.`,
  );
}

function hasNone(args: unknown): boolean {
  if (typeof args === 'string') return blank(args) || ['null', '[]'].includes(args.trim());
  return args === null || args === undefined || (Array.isArray(args) && args.length === 0);
}

/** Parses a JSON text; undefined when it is not JSON, or too large together with the texts before it. */
type ReadJson = (text: string) => unknown;

function jsonReader(): ReadJson {
  let left = ENTRIES_MAX;
  return (text) => {
    left -= entriesIn(text) + 1;
    if (left < 0) return undefined;
    try {
      return parseJson(Buffer.from(text), { maxDepth: JSON_DEPTH_MAX, exactNumbers: true });
    } catch {
      return undefined;
    }
  };
}

/**
 * Converts a value that its schema does not accept, when it can mean only one thing: a list, object, number or boolean
 * as JSON text, one value in place of a list, a whole number in place of a text, and no value for an optional field. A
 * text stays as it is wherever the schema accepts a text, even when it looks like JSON, except for {@link NO_VALUE}.
 */
function understood(schema: z.core.$ZodType, value: unknown, json: ReadJson): unknown {
  if (isWrapper(schema)) return understood(schema.unwrap(), value, json);
  if (schema instanceof z.ZodArray) return understoodList(schema, value, json);
  if (schema instanceof z.ZodObject) return understoodObject(schema, value, json);
  if (schema instanceof z.ZodPipe) return understood(schema.in, value, json);
  if (schema instanceof z.ZodString) return Number.isSafeInteger(value) ? String(value) : value;
  // Do not round a number that is not an integer to one: it would be the id of another object.
  if (schema instanceof z.ZodNumber && isInteger(value)) return numberOf(value);
  if (typeof value !== 'string' || accepts(schema, value)) return value;
  // Python writes True and False.
  const parsed = json(schema instanceof z.ZodBoolean ? value.toLowerCase() : value);
  const meant = schema instanceof z.ZodNumber && isInteger(parsed) ? numberOf(parsed) : parsed;
  return accepts(schema, meant) ? meant : value;
}

function understoodList(schema: z.ZodArray, value: unknown, json: ReadJson): unknown {
  if (value === null || value === undefined || value === '') return value;
  const parsed = typeof value === 'string' ? json(value) : value;
  const entries = Array.isArray(parsed) ? parsed : valuesOf(schema.element, value);
  return entries.map((entry) => understood(schema.element, entry, json));
}

/** One value in place of a list. Words of an enumeration may be separated by commas, as in REST. */
function valuesOf(element: z.core.$ZodType, value: unknown): unknown[] {
  const isWords = element instanceof z.ZodEnum && typeof value === 'string';
  return isWords ? value.split(',').map((word) => word.trim()) : [value];
}

function understoodObject(schema: z.ZodObject, sent: unknown, json: ReadJson): unknown {
  const value = typeof sent === 'string' ? (json(sent) ?? sent) : sent;
  if (!isObject(value)) return sent;
  const present = Object.entries(value).filter(([key, part]) => !isAbsent(schema, key, part));
  const fields = present.map(([key, part]) => {
    const field = fieldOf(schema, key);
    return [key, field ? understood(field, part, json) : part];
  });
  return Object.fromEntries(fields);
}

/**
 * What JSON, JavaScript and Python make of a missing value that is put into a text. The first two are no words of a
 * language, so they are never a meant comment or search. `None` is a word, and a town in Italy.
 */
const NO_VALUE: ReadonlySet<string> = new Set(['null', 'undefined']);
const PYTHON_NO_VALUE = 'None';

/** Assistants send null, its text or an empty text for fields that they do not need. REST does the same with null. */
function isAbsent(schema: z.ZodObject, key: string, value: unknown): boolean {
  const field = fieldOf(schema, key);
  if (!(field instanceof z.ZodOptional || field instanceof z.ZodDefault)) return false;
  if (value === null) return true;
  if (typeof value !== 'string' || isRestriction(field)) return false;
  if (NO_VALUE.has(value)) return true;
  return (blank(value) || value === PYTHON_NO_VALUE) && !accepts(field, value);
}

function fieldOf(schema: z.ZodObject, key: string): z.core.$ZodType | undefined {
  return Object.hasOwn(schema.shape, key) ? schema.shape[key] : undefined;
}

function withoutDummies(schema: z.ZodObject, args: unknown): unknown {
  if (!isObject(args)) return args;
  const isDummy = (name: string) => DUMMY.test(name) && !Object.hasOwn(schema.shape, name);
  return Object.fromEntries(Object.entries(args).filter(([name]) => !isDummy(name)));
}

function isWrapper(schema: unknown): schema is z.ZodOptional | z.ZodDefault | z.ZodNullable {
  return (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodNullable
  );
}

function accepts(schema: z.core.$ZodType, value: unknown): boolean {
  return z.safeParse(schema, value).success;
}

function isObject(value: unknown): value is Record<string, unknown> {
  const isComposed = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isComposed && numberOf(value) === undefined;
}

function unknownKey(schema: z.ZodObject, path: readonly PropertyKey[]): string {
  const known = Object.keys(schema.shape);
  const name = fieldName(path, 'arguments');
  if (path.length > 1) return `${name} is an unknown field.`;
  const rest =
    known.length === 0 ? 'This tool has no arguments.' : `Its arguments are ${known.join(', ')}.`;
  return `${name} is not an argument of this tool. ${rest}`;
}

/** Metadata of a schema that {@link listedWithoutBounds} sets. */
export const LISTED_WITHOUT_BOUNDS = 'x-listed-without-bounds';

/**
 * Marks a text that an assistant copies from a result or another tool, or makes up as a short key. An assistant does
 * not need the bounds of such a text, so `tools/list` leaves them out.
 */
export function listedWithoutBounds<S extends z.ZodType>(schema: S): S {
  return schema.meta({ [LISTED_WITHOUT_BOUNDS]: true });
}

const RESTRICTIONS = z.registry();

/**
 * An optional argument that restricts what a write does. An empty text or list for it is rejected, because the write
 * would then do more than is meant. Null counts as absent, since some clients cannot omit an argument.
 */
export function restriction<S extends z.ZodType>(schema: S): z.ZodOptional<S> {
  const field = schema.optional();
  RESTRICTIONS.add(field);
  return field;
}

function isRestriction(schema: z.core.$ZodType): boolean {
  return RESTRICTIONS.has(schema);
}

type Schema = Record<string, unknown>;

/**
 * Removes rules of an argument that assistants follow even without reading them, because each assistant reads the list
 * in each conversation and pays for it. The parser still checks these rules, and `docs/mcp/tools.md` lists them.
 * `additionalProperties: false` stays, because clients that force a model's output to match the schema require it.
 */
export function removeKnownRules(schema: Schema, isWithoutBounds: boolean): void {
  if (isWithoutBounds) {
    delete schema.maxLength;
    delete schema.pattern;
  }
  // Assistants send no empty text where a text is required.
  if (schema.minLength === 1) delete schema.minLength;
  // Assistants copy ids from results, and every id is at least 1. A number that is not an id, such as a quantity, also
  // has a maximum, so it keeps its minimum.
  if (schema.minimum === 1 && schema.maximum === undefined) delete schema.minimum;
  // An assistant sends each value of a list at most once.
  if (enumValues(schema.items).length === schema.maxItems) delete schema.maxItems;
}

function enumValues(items: unknown): readonly unknown[] {
  const { enum: values }: Schema = Object(items);
  return Array.isArray(values) ? values : [];
}
