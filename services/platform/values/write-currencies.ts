import { readFileSync, writeFileSync } from 'node:fs';
import { CURRENCIES, type CurrencyList } from './currencies.ts';

// Writes currencies.json again from list one of ISO 4217, which the maintenance agency of the standard (SIX) publishes
// as list-one.xml: `node services/platform/values/write-currencies.ts <list-one.xml>`. A code that is no longer in the list
// becomes withdrawn, and keeps its decimals.

const xml = readFileSync(process.argv[2] ?? 'list-one.xml', 'utf8');
const published = /<ISO_4217 Pblshd="(\d{4}-\d{2}-\d{2})">/.exec(xml)?.[1];
if (published === undefined) throw new Error('the file is no list one of ISO 4217');
if (published < CURRENCIES.published)
  throw new Error(`a later list was read: ${CURRENCIES.published}`);

/** Decimals by code. Codes without a minor unit, such as that of gold, have `N.A.`, which counts as none. */
const current = new Map(
  [
    ...xml.matchAll(/<Ccy>([A-Z]{3})<\/Ccy>\s*<CcyNbr>\d+<\/CcyNbr>\s*<CcyMnrUnts>(\d|N\.A\.)</g),
  ].map(([, code = '', digits]) => [code, digits === 'N.A.' ? 0 : Number(digits)]),
);
if (current.size < 150) throw new Error(`the file has only ${current.size} currencies`);
const withdrawn = [...CURRENCIES.withdrawn, ...CURRENCIES.current].filter(
  ([code]) => !current.has(code),
);

/** The codes by decimals, in order. */
function grouped(decimals: Iterable<readonly [string, number]>): Record<string, string> {
  const groups: Record<string, string> = {};
  for (const [code, digits] of [...decimals].sort()) {
    groups[digits] = [groups[digits], code].filter(Boolean).join(' ');
  }
  return groups;
}

const list: CurrencyList = {
  published,
  read: new Date().toISOString().slice(0, 10),
  current: grouped(current),
  withdrawn: grouped(withdrawn),
};
writeFileSync(
  new URL('./currencies.json', import.meta.url),
  `${JSON.stringify(list, undefined, 2)}\n`,
);
