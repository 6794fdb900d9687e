import list from './currencies.json' with { type: 'json' };

/** ISO 4217 list one, as `write-currencies.ts` writes it. Texts with codes, by their number of decimals. */
export interface CurrencyList {
  /** The date of the list. */
  readonly published: string;
  /** When the newest list was last read. */
  readonly read: string;
  readonly current: Readonly<Record<string, string>>;
  /** Codes of earlier lists. Orders from the past have them. */
  readonly withdrawn: Readonly<Record<string, string>>;
}

/** The currencies with their decimals: those of ISO 4217 today, and those that were withdrawn since 2014. */
export const CURRENCIES = {
  published: list.published,
  read: list.read,
  current: decimalsIn(list.current),
  withdrawn: decimalsIn(list.withdrawn),
};

function decimalsIn(groups: CurrencyList['current']): ReadonlyMap<string, number> {
  return new Map(
    Object.entries(groups).flatMap(([digits, codes]) =>
      codes.split(' ').map((code) => [code, Number(digits)] as const),
    ),
  );
}

/**
 * Returns the number of decimals of a currency (ISO 4217), also of one that was withdrawn, because orders from the past
 * have it. Undefined when there is no such currency.
 */
export function decimalsOf(currency: string): number | undefined {
  return CURRENCIES.current.get(currency) ?? CURRENCIES.withdrawn.get(currency);
}
