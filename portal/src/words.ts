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
