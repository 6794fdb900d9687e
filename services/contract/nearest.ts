/** Longer names are compared by their beginning. Characters. */
const COMPARED_MAX = 60;
/** So many equal characters at the beginning make two names similar: `updated_since` and `updated_from`. */
const SHARED_MIN = 6;

/** The known name that a mistyped one probably means, the first of equally similar ones; undefined when none is similar. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const text = normal(name);
  const similar = known
    .map((one) => ({ one, distance: distanceOf(text, normal(one)) }))
    .filter(({ one, distance }) => isSimilar(text, normal(one), distance))
    .sort((a, b) => a.distance - b.distance);
  return similar[0]?.one;
}

/** Without case and separators, so that `webhookId` and `webhook-id` are equal to `webhook_id`. */
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

/** How many characters must be inserted, removed or replaced to make one text the other (Levenshtein). */
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
