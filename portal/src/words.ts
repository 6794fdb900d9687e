import type { DescEnum } from '@bufbuild/protobuf';
import type { GenEnum } from '@bufbuild/protobuf/codegenv2';

/** The words of the API in words of people. A word that is not listed is shown as it is. */
const ROLES: Readonly<Record<string, string>> = {
  owner: 'Owner',
  admin: 'Admin',
  returns_agent: 'Returns agent',
  warehouse: 'Warehouse',
  analyst: 'Analyst',
  developer: 'Developer',
};

export function roleName(role: string): string {
  return ROLES[role] ?? inWords(role);
}

/** `back_to_stock` → `Back to stock`, `exchange+refund` → `Exchange + refund` */
export function inWords(word: string): string {
  const text = word.replaceAll('_', ' ').replaceAll('-', ' ').replaceAll('+', ' + ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** `1 return`, `2 returns` */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${NUMBER.format(number)} ${number === 1 ? one : many}`;
}

const NUMBER = new Intl.NumberFormat();

export function numberText(number: number | bigint): string {
  return NUMBER.format(number);
}

/** `1234.50 GBP`: the digits as they are, because the decimals belong to the currency. */
export function moneyText(value: string, currency: string): string {
  return value === '' ? '–' : `${value.replace('-', '−')} ${currency}`;
}

/** The amount with the other sign. Zero and an empty text have none. */
export function negated(value: string): string {
  if (!/[1-9]/.test(value)) return value;
  return value.startsWith('-') ? value.slice(1) : `-${value}`;
}

/**
 * The word of a value of an enum in addresses and in the API, such as `open` for `RETURN_STATE_OPEN`; empty for zero, and
 * for a value that is newer than the page.
 */
export function wordOf(desc: DescEnum, value: number): string {
  const name = value === 0 ? '' : (desc.value[value]?.name ?? '');
  return name.slice(desc.sharedPrefix?.length ?? 0).toLowerCase();
}

/** The value of such a word. Zero, which the service rejects, for a text that is no word of the enum. */
export function enumOf<T extends number>(desc: GenEnum<T>, word: string): T {
  const found = desc.values.find(({ number }) => number !== 0 && wordOf(desc, number) === word);
  // The type of the descriptor says only `number`, but the numbers are the members of T.
  return (found?.number ?? 0) as T;
}

/** A text of a service, such as why something is refused, as a sentence. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/[^.!?]$/, '$&.');
}
