import { readFile } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { withEventTables } from '../../services/contract/topics/delivery-tables.ts';

test('docs/delivery.md lists the topics and triggers of the code; `npm run docs` writes them', async () => {
  const page = await readFile(new URL('../../docs/delivery.md', import.meta.url), 'utf8');
  expect(withEventTables(page)).toBe(page);
});
