/** Source of all random choices of a test. The same seed repeats them. */
export interface Random {
  /** From 0 to below 1. */
  next(): number;
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number;
  /**
   * One of the items.
   *
   * @throws RangeError when the list is empty.
   */
  pick<T>(from: readonly T[]): T;
  /** All items in a random order. */
  shuffled<T>(items: readonly T[]): T[];
  /** An independent generator, so that the numbers of one part of a test do not affect another part. */
  fork(name: string): Random;
}

/** A generator whose numbers depend only on the seed. Not for secrets. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  // A Weyl sequence through a 32-bit finaliser: small, and random enough for tests.
  const next = (): number => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
  const between = (low: number, high: number): number =>
    low + Math.floor(next() * (high - low + 1));
  return {
    next,
    between,
    pick(from) {
      const chosen = from[between(0, from.length - 1)];
      if (chosen === undefined) throw new RangeError('nothing to pick from');
      return chosen;
    },
    shuffled(items) {
      const left = [...items];
      return items.flatMap(() => left.splice(between(0, left.length - 1), 1));
    },
    fork: (name) => randomOf(hashOf(name, seed)),
  };
}

/** FNV-1a over the name, starting with the seed. */
function hashOf(name: string, seed: number): number {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (const letter of name)
    hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return hash;
}
