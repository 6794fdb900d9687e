import { readFile } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { configReference, PAGE } from './config-reference.ts';

test('docs/configuration.md is up to date: run `npm run docs` after a change', async () => {
  expect(await readFile(PAGE, 'utf8')).toBe(await configReference());
});

test('every variable has a description', async () => {
  const rows = (await configReference()).split('\n').filter((line) => line.startsWith('- `'));
  expect(rows.length).toBeGreaterThan(10);
  for (const row of rows) expect(row).toMatch(/^- `[A-Z_0-9]+`( \(\S+\))?: \S.+$/);
});
