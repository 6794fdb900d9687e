import { isNumber, numberText } from '../../../services/contract/validate/exact-json.ts';
import { characters, printable } from '../../../services/platform/values/text.ts';

/** The parts of the schema library's issues that sentences need. Only some kinds of issue have the last ones. */
export interface Issue {
  readonly message?: string | undefined;
  readonly code?: string | undefined;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
  readonly input?: unknown;
  readonly expected?: string;
  readonly values?: readonly unknown[];
  readonly keys?: readonly string[];
  readonly minimum?: number | bigint;
  readonly maximum?: number | bigint;
}

/** Maximum length of a name, and of a text that is repeated, in a sentence. Characters. */
const NAME_MAX = 100;
const TEXT_MAX = 60;

/** The types of the schema library in plain words. */
const TYPES: ReadonlyMap<unknown, string> = new Map([
  ['string', 'a text'],
  ['number', 'a number'],
  ['int', 'a whole number'],
  ['boolean', 'true or false'],
  ['array', 'a list'],
  ['object', 'an object'],
  ['record', 'an object'],
]);

/** The rule that a value breaks, in plain words, for a schema that has no error text of its own. */
export function ruleOf({ code, input, expected, values, minimum, maximum }: Issue): string {
  if (input === undefined || input === null) return 'is required';
  const type = TYPES.get(expected);
  if (type !== undefined) return `must be ${type}`;
  if (values) return `must be one of ${values.map(String).join(', ')}`;
  const what = typeof input === 'string' ? ' characters' : Array.isArray(input) ? ' entries' : '';
  if (code === 'too_small') return `must be at least ${minimum}${what}`;
  if (code === 'too_big') return `must be at most ${maximum}${what}`;
  return 'has a wrong form';
}

/**
 * One sentence with the name of a value, the rule that it breaks, and what was sent.
 *
 * @param root the value that was checked. `rootName` is its name.
 */
export function problemOf(issue: Issue, root: unknown, rootName: string): string {
  const sent = shown(valueAt(root, issue));
  const end = sent === undefined ? '' : `; you sent ${sent}`;
  return `${fieldName(keysOf(issue), rootName)} ${issue.message}${end}.`;
}

/** As {@link problemOf}, for an issue whose error text is that of the schema library. */
export function plainProblemOf(issue: Issue, root: unknown, rootName: string): string {
  const message = ruleOf({ ...issue, input: valueAt(root, issue) });
  return problemOf({ ...issue, message }, root, rootName);
}

export function keysOf({ path = [] }: Issue): PropertyKey[] {
  return path.map((part) => (typeof part === 'object' ? part.key : part));
}

function valueAt(root: unknown, issue: Issue): unknown {
  return keysOf(issue).reduce<unknown>((value, key) => Object(value)[key], root);
}

/** A sent value in words; undefined for an absent one. */
function shown(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (isNumber(value)) return numberText(value);
  if (Array.isArray(value)) return `a list with ${value.length} entries`;
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value !== 'string') return String(value);
  return value.length > TEXT_MAX
    ? `a text of ${characters(value)} characters`
    : `the text ${JSON.stringify(printable(value))}`;
}

/** The name of a value, such as `items[0].note`. It is cut and cleaned, because it may be a text of the caller. */
export function fieldName(path: readonly PropertyKey[], rootName: string): string {
  if (path.length === 0) return rootName;
  const name = path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    return text === '' ? String(part) : `${text}.${String(part)}`;
  }, '');
  return printable(name, NAME_MAX);
}
