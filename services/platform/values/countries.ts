import { createRequire } from 'node:module';
import { z } from 'zod';

const table = z.object({
  countries: z.record(z.string(), z.union([z.string(), z.array(z.string()).min(1)])),
});

/**
 * English names by ISO 3166 alpha-2 code. This file is read alone, because the main file of the package would load 79
 * languages.
 */
const { countries } = table.parse(
  createRequire(import.meta.url)('i18n-iso-countries/langs/en.json'),
);

/** The English name of a country by its upper-case two-letter code; empty for an unknown code. */
export function countryName(code: string): string {
  const names = countries[code] ?? '';
  return typeof names === 'string' ? names : (names[0] ?? '');
}
