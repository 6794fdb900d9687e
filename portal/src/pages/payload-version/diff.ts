/** A line of a comparison: in both texts, only in the old one, or only in the new one. */
export interface DiffLine {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
}

/**
 * Compares two texts line by line with the longest common subsequence, so that the fewest lines differ. Removed lines
 * stand before added ones.
 *
 * The table has one cell for each pair of lines between the common start and end: payloads have some hundred lines.
 */
export function diffLines(before: string, after: string): DiffLine[] {
  const old = before.split('\n');
  const now = after.split('\n');
  const start = commonStart(old, now);
  const end = commonStart(old.slice(start).reverse(), now.slice(start).reverse());
  const same = (lines: readonly string[]): DiffLine[] =>
    lines.map((text) => ({ kind: 'same', text }));
  return [
    ...same(old.slice(0, start)),
    ...middle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...same(old.slice(old.length - end)),
  ];
}

function commonStart(a: readonly string[], b: readonly string[]): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at += 1) if (a[at] !== b[at]) return at;
  return length;
}

function middle(old: readonly string[], now: readonly string[]): DiffLine[] {
  const common = commonLengths(old, now);
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    const [removed, added] = [old[i], now[j]];
    if (removed !== undefined && removed === added) {
      lines.push({ kind: 'same', text: removed });
      i += 1;
      j += 1;
    } else if (removed !== undefined && (j >= now.length || common(i + 1, j) >= common(i, j + 1))) {
      lines.push({ kind: 'removed', text: removed });
      i += 1;
    } else if (added !== undefined) {
      lines.push({ kind: 'added', text: added });
      j += 1;
    }
  }
  return lines;
}

/** Length of the longest common subsequence of the lines from `i` of the old and from `j` of the new text. */
function commonLengths(old: readonly string[], now: readonly string[]) {
  const width = now.length + 1;
  const table = new Uint32Array((old.length + 1) * width);
  const at = (i: number, j: number) => table[i * width + j] ?? 0;
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      table[i * width + j] =
        old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  return at;
}

/** Lines shown around a difference. */
const CONTEXT = 3;

/** The lines near differences; a gap is the number of equal lines that are left out. */
export function withoutEqualParts(
  lines: readonly DiffLine[],
): (DiffLine | { readonly gap: number })[] {
  const near = new Set<number>();
  for (const [at, { kind }] of lines.entries()) {
    if (kind === 'same') continue;
    for (let line = at - CONTEXT; line <= at + CONTEXT; line += 1) near.add(line);
  }
  const shown: (DiffLine | { gap: number })[] = [];
  for (const [at, line] of lines.entries()) {
    const last = shown.at(-1);
    if (near.has(at)) shown.push(line);
    else if (last && 'gap' in last) last.gap += 1;
    else shown.push({ gap: 1 });
  }
  return shown;
}
