import { describe, expect, test } from '@jest/globals';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import type { ReadableEntry } from './entry.ts';
import { auditCsv } from './export.ts';

const entryWith = (actorName: string, subject: string): ReadableEntry => ({
  ...{ id: 1n, at: new Date(0), actorKind: 'user', actorId: '1', actorName, actorEmail: '' },
  ...{
    source: null,
    requestId: null,
    what: 'Done',
    act: 'b',
    action: 'a.b',
    outcome: '',
    call: '',
  },
  ...{ objectKind: '', subject, objectName: '', changes: [], detail: {} },
});

const csvOf = (actorName: string, subject = '') =>
  auditCsv([entryWith(actorName, subject)], { withHeader: false });

/** Texts with many of the characters that spreadsheets treat in their own way. */
const hostile = fc.string({
  unit: fc.constantFrom(...'=+-@\uFF1D\uFF0B\uFF0D\uFF20;,\t\r\n "\u200B\u00A0a1'),
  maxLength: 12,
});

describe('the CSV of the audit log', () => {
  test('has no cell that a spreadsheet runs, whatever it takes as a separator', () => {
    fc.assert(
      fc.property(hostile, hostile, (name, subject) => {
        for (const part of csvOf(name, subject).split(/[,;\t\r\n]/))
          expect(part).not.toMatch(/^["\s\p{Cf}]*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]/u);
      }),
    );
  });

  test('has all characters of a text, in quotes; only an apostrophe is added', () => {
    fc.assert(
      fc.property(hostile, (name) => {
        const [row = []] = parse(csvOf(name), { relax_column_count: true });
        expect(row[4]?.replaceAll("'", '')).toBe(name);
        expect(row).toHaveLength(17);
      }),
    );
    expect(csvOf('Ann')).toContain(',"Ann",');
  });
});
