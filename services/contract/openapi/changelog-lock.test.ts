import { readFile } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { type ChangelogLock, changelogLock, requireChangelogEntry } from './changelog-lock.ts';

const text = (path: string) => readFile(new URL(path, import.meta.url), 'utf8');

test('a change of the public shape has an entry in docs/changelog.md; after both run `npm run docs`', async () => {
  const stored: ChangelogLock = JSON.parse(await text('changelog-lock.json'));
  const now = changelogLock(await text('../../../docs/changelog.md'));
  expect(() => requireChangelogEntry(stored, now)).not.toThrow();
  expect(now).toEqual(stored);
});

test('a changed shape without a changelog entry is rejected', () => {
  const before = { shape: 'a', changelog: 'x' };
  const check = (shape: string, changelog: string) => () =>
    requireChangelogEntry(before, { shape, changelog });
  expect(check('b', 'x')).toThrow(/docs\/changelog\.md/);
  expect(check('b', 'y')).not.toThrow();
  expect(check('a', 'y')).not.toThrow();
});
