/** Only this many characters at the beginning of a name are compared. Characters. */
const COMPARED_MAX = 60;
/**
 * Two names are similar when this many characters at their beginnings are equal, as in `updated_since` and
 * `updated_from`.
 */
const SHARED_MIN = 6;

/**
 * For a name of this API, the names that other APIs use for the same thing. A name is suggested only when it is in
 * `known`.
 */
const SYNONYMS: Readonly<Record<string, readonly string[]>> = {
  url: ['endpoint', 'callback', 'target', 'uri', 'address', 'destination'],
  trigger: ['event', 'events', 'eventtype', 'type'],
  status: ['active', 'enabled', 'disabled'],
  from: ['since', 'after', 'start'],
  to: ['until', 'before', 'end'],
  limit: ['pagesize', 'perpage', 'count', 'size'],
  cursor: ['page', 'after', 'offset', 'nextcursor', 'pagetoken'],
  category: ['grade', 'condition', 'conditioncategory'],
  cart: ['items', 'lines', 'lineitems', 'products', 'variants'],
};

/**
 * Returns the known name that the caller probably meant by a mistyped one; undefined when no known name is similar. Of
 * several equally similar names, returns the first.
 */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const text = normal(name);
  const similar = known
    .map((one) => ({ one, distance: distanceOf(text, normal(one)) }))
    .filter(({ one, distance }) => isSimilar(text, normal(one), distance))
    .sort((a, b) => a.distance - b.distance);
  return (
    similar[0]?.one ??
    withSameWord(name, known) ??
    known.find((one) => SYNONYMS[one]?.includes(text) || (text === 'id' && one.endsWith('_id')))
  );
}

/** Maximum number of wrong characters in a name that looks like another one. A short name may have fewer. */
const MISTYPED_MAX = 2;

/**
 * Returns the known name that looks like `name`: it differs only in case, separators or its plural, or in one or two
 * characters. Undefined when there is none. It is stricter than {@link nearest}.
 */
export function mistypedOf(name: string, known: readonly string[]): string | undefined {
  const text = normal(name);
  return known.find((one) => {
    const other = normal(one);
    const distance = distanceOf(text, other);
    const isPlural = text.replace(/(?:ies|es|s)$/, '') === other.replace(/y$/, '');
    return isPlural || distance <= Math.min(MISTYPED_MAX, Math.max(text.length, other.length) / 3);
  });
}

/**
 * Returns the shortest known name that has all words of `name`, or whose words are all in `name`, as with
 * `callback_url` and `url`.
 */
function withSameWord(name: string, known: readonly string[]): string | undefined {
  const words = wordsOf(name);
  return known
    .filter((one) => {
      const others = wordsOf(one);
      return isPart(words, others) || isPart(others, words);
    })
    .sort((a, b) => a.length - b.length)[0];
}

/**
 * Minimum length of a word that makes two names similar. Shorter words, such as `id` and `to`, are in too many names.
 */
const WORD_MIN = 3;

function isPart(words: readonly string[], others: readonly string[]): boolean {
  return (
    words.some((word) => word.length >= WORD_MIN) && words.every((one) => others.includes(one))
  );
}

/** The words of `webhook_url`, `webhookUrl` or `webhook-url`, in lower case. */
function wordsOf(name: string): string[] {
  return name
    .slice(0, COMPARED_MAX)
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[-_\s]+/)
    .filter((word) => word !== '');
}

/** A name without case and separators, so that `webhookId` and `webhook-id` equal `webhook_id`. */
function normal(name: string): string {
  return name
    .slice(0, COMPARED_MAX)
    .toLowerCase()
    .replace(/[-_\s]/g, '');
}

function isSimilar(one: string, other: string, distance: number): boolean {
  const [shorter, longer] = one.length < other.length ? [one, other] : [other, one];
  if (distance <= longer.length / 3) return true;
  const shared = shorter.length >= 3 && longer.startsWith(shorter);
  return shared || one.slice(0, SHARED_MIN) === other.slice(0, SHARED_MIN);
}

/** The number of characters that must be inserted, removed or replaced to make the two texts equal (Levenshtein). */
function distanceOf(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [at, character] of [...one].entries()) {
    const next = [at + 1];
    for (let to = 1; to <= other.length; to += 1) {
      const replaced = (row[to - 1] ?? 0) + (character === other[to - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[to] ?? 0) + 1, (next[to - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
