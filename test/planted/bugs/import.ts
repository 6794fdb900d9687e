import type { Bug } from '../bug.ts';

/** Bugs of imports, and of the comparison of what other systems write. */
export const importBugs: readonly Bug[] = [
  {
    name: 'spellings-are-invoices',
    promise: 'one invoice is paid once, in whatever spelling files have its number',
    file: 'services/platform/text.ts',
    find: "return text.normalize('NFC').trim();",
    replace: 'return text;',
    tests: ['gateway/admin/import/run.test.ts'],
  },
  {
    name: 'import-decodes-leniently',
    promise: 'an import stores no replacement characters for bytes that it cannot decode',
    file: 'gateway/admin/import/decoded.ts',
    find: 'new TextDecoder(encoding, { fatal: true })',
    replace: 'new TextDecoder(encoding)',
    tests: ['gateway/admin/import/format.test.ts'],
  },
  {
    name: 'column-twice-is-one',
    promise: 'an import rejects a file with a column twice',
    file: 'gateway/admin/import/format.ts',
    find: 'if (again > at) {',
    replace: 'if (false) {',
    tests: ['gateway/admin/import/format.test.ts'],
  },
  {
    name: 'import-changes-amounts',
    promise: 'a corrected file repairs texts, never amounts or identities',
    file: 'services/returns/submit/correct-texts.ts',
    find: 'if (differing.length > 0) throw conflict(differing);',
    replace: '',
    tests: ['services/returns/submit/correct-texts.test.ts'],
  },
  {
    name: 'correction-undoes-a-redaction',
    promise: 'an import brings back nothing that a redaction removed',
    file: 'services/returns/submit/correct-texts.ts',
    find: ' and redacted_at is null',
    replace: '',
    tests: ['services/returns/submit/correct-texts.test.ts'],
  },
  {
    name: 'withdrawn-currency-unreadable',
    promise: 'amounts of orders from the past stay readable after their currency was withdrawn',
    file: 'services/platform/currencies.ts',
    find: ' ?? CURRENCIES.withdrawn.get(currency)',
    replace: '',
    tests: ['services/platform/money.test.ts'],
  },
];
