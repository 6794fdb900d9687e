import { existsSync, globSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';

/** Paths from the root, in backticks. Paths with a placeholder (`<name>`) are left out. */
const PATH = /`((?:deploy|docs|gateway|portal|proto|services|test)\/[\w./-]+)`/g;

test('CONTRIBUTING.md and the recipes name only files and folders that exist', () => {
  const pages = ['CONTRIBUTING.md', ...globSync('docs/recipes/*.md')];
  const paths = pages.flatMap((page) =>
    [...readFileSync(page, 'utf8').matchAll(PATH)].map(([, path = '']) => `${page}: ${path}`),
  );
  expect(paths.length).toBeGreaterThan(30);
  expect(paths.filter((path) => !existsSync(path.replace(/^.*: /, '')))).toEqual([]);
});

test('CONTRIBUTING.md links to every recipe', () => {
  const page = readFileSync('CONTRIBUTING.md', 'utf8');
  expect(globSync('docs/recipes/*.md').filter((recipe) => !page.includes(`(${recipe})`))).toEqual(
    [],
  );
});
