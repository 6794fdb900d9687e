import type { foundIn } from './session.ts';

/** What a reply to a request or a search says. */
type Read = ReturnType<typeof foundIn>;

export function isEffect(read: Read): boolean {
  return read !== null && typeof read !== 'string';
}

/** Whether both are one effect, with one amount. */
export function isSame(one: Read, other: Read): boolean {
  if (one === null || other === null) return false;
  if (typeof one === 'string' || typeof other === 'string') return false;
  return String(one.id) === String(other.id) && one.amount === other.amount;
}

/** Says that two replies about one key differ. */
export function differing(first: Read, second: Read): string {
  return `first ${shown(first)}, then ${shown(second)}; one key must have one effect`;
}

/** A reply, for people. */
export function shown(read: Read): string {
  if (read === null) return 'no effect';
  if (typeof read === 'string') return read;
  return read.amount === undefined
    ? `effect ${read.id}`
    : `effect ${read.id} of ${read.amount} ${read.currency}`;
}
