import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';

const ROOT = new URL('../../', import.meta.url);

/** Paths from the root, in backticks. Paths with a placeholder (`<name>`) are left out. */
const PATH = /`((?:deploy|docs|gateway|proto|services|test)\/[\w./-]+)`/g;

test('CONTRIBUTING.md names only files and folders that exist', () => {
  const page = readFileSync(new URL('CONTRIBUTING.md', ROOT), 'utf8');
  const paths = [...page.matchAll(PATH)].map(([, path = '']) => path);
  expect(paths.length).toBeGreaterThan(30);
  expect(paths.filter((path) => !existsSync(new URL(path, ROOT)))).toEqual([]);
});
