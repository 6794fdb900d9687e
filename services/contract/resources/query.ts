import { characters } from '../../platform/values/text.ts';
import { CURSOR_MAX, PAGE_DEFAULT, PAGE_MAX } from '../limits.ts';
import { isOnNoDay, NO_DAY_RULE, parseTime } from '../time.ts';
import { textError } from './fields.ts';

/** The result of parsing a query. `notFound` means that no object can have the id or name in the query. */
export type QueryResult<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false;
      readonly field: string;
      readonly rule: string;
      readonly notFound?: boolean;
    };

/**
 * A name without the brackets that many HTTP libraries add to the name of a list: `state[]` and `state[0]` mean `state`.
 */
export function withoutBrackets(name: string): string {
  return name.replace(/\[\d{0,4}\]$/, '');
}

/** Thrown for a parameter of a query that breaks a rule. */
export class InvalidParameter extends Error {
  override readonly name = 'InvalidParameter';
  readonly field: string;
  readonly rule: string;

  constructor(field: string, rule: string) {
    super(`${field} ${rule}`);
    this.field = field;
    this.rule = rule;
  }
}

/** Reads a query with `read`. An {@link InvalidParameter} becomes a result and is not thrown. */
export function readQuery<T>(read: () => T): QueryResult<T> {
  try {
    return { ok: true, value: read() };
  } catch (error) {
    if (!(error instanceof InvalidParameter)) throw error;
    return { ok: false, field: error.field, rule: error.rule };
  }
}

/** The parameters of a page of a list. */
export interface Page {
  readonly limit: number;
  /** The cursor of the previous page; empty for the first page. */
  readonly cursor: string;
}

/** The known parameters of a query. Each method throws {@link InvalidParameter}. */
export interface Parameters<Name extends string> {
  /** The text of a parameter; undefined when it is absent. */
  text(name: Name): string | undefined;
  /** A parameter whose value is one word of a list; undefined when it is absent. */
  word<const T extends string>(name: Name, words: readonly T[]): T | undefined;
  /** A parameter whose value is several words of a list, separated by commas; empty when it is absent. */
  words<const T extends string>(name: Name, words: readonly T[]): readonly T[];
  /** A parameter whose value is an RFC 3339 time; undefined when it is absent. */
  time(name: Name): Date | undefined;
  /** The two times of a period. Each may be absent. */
  period(from: Name, to: Name): { readonly from: Date | undefined; readonly to: Date | undefined };
  /** The parameters `limit` and `cursor`. Both must be among the known parameters. */
  page(): Page;
}

interface Checks {
  readonly lists?: Readonly<Record<string, string>>;
  readonly ids?: readonly string[];
}

const LIMIT = /^[1-9]\d{0,2}$/;
const TIME_RULE =
  'must be an RFC 3339 date-time with a UTC offset, such as 2026-07-01T12:00:00+00:00 (a + is sent as %2B)';

/**
 * Checks the known parameters of a query. Each may occur once, must not be empty, and must have characters that can be
 * stored.
 *
 * @param o.lists example values of the parameters that take several words, such as `open,closed`.
 * @param o.ids parameters that are ids of objects. Their characters are not checked here, because a text that is no id
 *   is the id of no object: the response is 404, as for such an id in a path.
 * @throws InvalidParameter for the first parameter that breaks a rule.
 */
export function parametersIn<Name extends string>(
  query: URLSearchParams,
  names: readonly Name[],
  { lists = {}, ids = [] }: Checks = {},
): Parameters<Name> {
  const values = new Map<string, string>();
  for (const name of names) {
    const [value, ...more] = query.getAll(name);
    if (more.length > 0) throw new InvalidParameter(name, onceRule(lists[name]));
    const all = [
      ...(value === undefined ? [] : [value]),
      ...(name in lists ? listed(query, name) : []),
    ];
    if (all.length === 0) continue;
    if (all.includes('')) throw new InvalidParameter(name, emptyRule(name));
    const joined = all.join(',');
    const error = ids.includes(name) ? undefined : textError(joined);
    if (error !== undefined) throw new InvalidParameter(name, error);
    values.set(name, joined);
  }
  const text = (name: Name) => values.get(name);
  return { text, ...wordReaders(text), ...timeReaders(text), page: () => pageIn(query) };
}

/** The values of a list that was sent as `state[]=open&state[]=closed` or `state[0]=open&state[1]=closed`. */
function listed(query: URLSearchParams, name: string): string[] {
  const isOfList = (key: string) => key !== name && withoutBrackets(key) === name;
  return [...query].flatMap(([key, value]) => (isOfList(key) ? [value] : []));
}

/**
 * The rule for a parameter that occurs twice. Many clients send a list as `state=open&state=closed`, so the rule shows
 * the right form.
 */
function onceRule(example: string | undefined): string {
  if (example === undefined) return 'must be given once';
  return `must be given once, with commas between its values: ${example}`;
}

/**
 * Parameters whose values may be names of orders, which begin with `#`. `order_name=#1001` arrives empty, because `#`
 * begins the fragment of an address.
 */
const NAMES_ORDERS: ReadonlySet<string> = new Set(['order_name', 'query']);

function emptyRule(name: string): string {
  const isName = NAMES_ORDERS.has(name);
  return `must not be empty${isName ? '; in an address, write # as %23' : ''}`;
}

type TextOf<Name> = (name: Name) => string | undefined;

function wordReaders<Name extends string>(text: TextOf<Name>) {
  return {
    word<const T extends string>(name: Name, words: readonly T[]): T | undefined {
      const value = text(name);
      return value === undefined ? undefined : wordIn(name, value, { words, rule: 'must be' });
    },
    words<const T extends string>(name: Name, words: readonly T[]): readonly T[] {
      const values = text(name)?.split(',') ?? [];
      const rule = 'must be a list, separated by commas,';
      return [...new Set(values.map((value) => wordIn(name, value, { words, rule })))];
    },
  };
}

function wordIn<T extends string>(
  name: string,
  value: string,
  { words, rule }: { readonly words: readonly T[]; readonly rule: string },
): T {
  const word = words.find((one) => one === value);
  if (word === undefined) {
    const of = rule === 'must be' ? 'one of' : 'of';
    throw new InvalidParameter(name, `${rule} ${of} ${words.join(', ')}`);
  }
  return word;
}

function timeReaders<Name extends string>(text: TextOf<Name>) {
  const time = (name: Name): Date | undefined => {
    const value = text(name);
    if (value === undefined) return undefined;
    const parsed = parseTime(value);
    if (!parsed) throw new InvalidParameter(name, isOnNoDay(value) ? NO_DAY_RULE : TIME_RULE);
    return parsed;
  };
  const period = (fromName: Name, toName: Name) => {
    const [from, to] = [time(fromName), time(toName)];
    if (from && to && from >= to) throw new InvalidParameter(toName, `must be after ${fromName}`);
    return { from, to };
  };
  return { time, period };
}

function pageIn(query: URLSearchParams): Page {
  const limit = query.get('limit') ?? String(PAGE_DEFAULT);
  if (!LIMIT.test(limit) || Number(limit) > PAGE_MAX) {
    throw new InvalidParameter('limit', `must be a whole number from 1 to ${PAGE_MAX}`);
  }
  const cursor = query.get('cursor') ?? '';
  if (characters(cursor) > CURSOR_MAX) {
    throw new InvalidParameter('cursor', `must be at most ${CURSOR_MAX} characters`);
  }
  return { limit: Number(limit), cursor };
}
