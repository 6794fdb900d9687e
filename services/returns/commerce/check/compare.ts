import { decimalsOf } from '../../../platform/currencies.ts';
import type { ProtocolEffect } from '../http/protocol.ts';

// Amounts and effects, in the form in which checks send and compare them.

/** An amount with all decimals of a currency. With 19 and `9` it is 19.90 in pounds, 19 in yen and 19.900 in dinars. */
export function amountOf(units: string, currency: string, fraction = '10'): string {
  const digits = decimalsOf(currency) ?? 2;
  return digits === 0 ? units : `${units}.${fraction.slice(0, digits).padEnd(digits, '0')}`;
}

/** The content of a reply: an effect, null for none, or a text that says what is wrong. */
type Read = ProtocolEffect | null | string;

export function isEffect(read: Read): boolean {
  return read !== null && typeof read !== 'string';
}

/** Whether both replies have an effect with the same id and amount. The currency is not compared. */
export function isSame(one: Read, other: Read): boolean {
  if (one === null || other === null) return false;
  if (typeof one === 'string' || typeof other === 'string') return false;
  return String(one.id) === String(other.id) && one.amount === other.amount;
}

/** Says how two replies about one key differ, or what is wrong with one of them. */
export function differing(first: Read, second: Read): string {
  if (typeof first === 'string') return `the first request: ${first}`;
  if (typeof second === 'string') return `the next request: ${second}`;
  return `first ${shown(first)}, then ${shown(second)}; one key must have one effect`;
}

/** A reply in words. */
export function shown(read: Read): string {
  if (read === null) return 'no effect';
  if (typeof read === 'string') return read;
  return read.amount === undefined
    ? `effect ${read.id}`
    : `effect ${read.id} of ${read.amount} ${read.currency}`;
}
