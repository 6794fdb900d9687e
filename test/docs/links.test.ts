import { existsSync, globSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { expect, test } from '@jest/globals';
import { DOCS_PATHS } from '../../gateway/docs/paths.ts';

const PAGES = globSync(['*.md', '{deploy,docs,test}/**/*.md']).filter(
  (page) => !page.includes('node_modules'),
);

/** The text of a page without its code blocks. */
const textOf = (page: string) => readFileSync(page, 'utf8').replaceAll(/^\s*```.*?^\s*```/gms, '');

/** The anchor that GitHub gives a heading. */
const anchorOf = (heading: string) =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

const anchorsOf = (page: string) =>
  [...textOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading));

/** The addresses of the gateway to which pages link, because they have no file. */
const SERVED: readonly string[] = Object.values(DOCS_PATHS);

/** The relative links of a page: file and anchor, from the root of the repository. */
function linksOf(page: string): { file: string; anchor: string }[] {
  return [...textOf(page).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = '']) => link)
    .filter((link) => !/^[a-z]+:/.test(link) && !SERVED.includes(link))
    .map((link) => {
      const [path = '', anchor = ''] = link.split('#');
      return { file: path === '' ? page : posix.join(posix.dirname(page), path), anchor };
    });
}

test.each(PAGES)('%s links only to files and headings that exist', (page) => {
  const broken = linksOf(page).filter(
    ({ file, anchor }) =>
      !existsSync(file) ||
      (file.endsWith('.md') && anchor !== '' && !anchorsOf(file).includes(anchor)),
  );
  expect(broken).toEqual([]);
});

test('no page has the marks of an unfinished merge', () => {
  const marked = PAGES.filter((page) => /^(?:<{7}|>{7}) /m.test(readFileSync(page, 'utf8')));
  expect(marked).toEqual([]);
});

test.each(['.ci/run', 'package.json', 'skaffold.yaml'])(
  '%s names only files that exist',
  (file) => {
    const named = readFileSync(file, 'utf8').match(
      /\b(?:deploy|gateway|portal|proto|services|test)\/[\w./-]+\.\w+/g,
    );
    expect(named?.filter((path) => !path.startsWith('proto/gen') && !existsSync(path))).toEqual([]);
  },
);
