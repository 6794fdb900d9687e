import { readFile, writeFile } from 'node:fs/promises';
import { goalsList, type Result } from './report.ts';

const PAGE = new URL('../../docs/performance.md', import.meta.url);
const BEGIN = '<!-- figures: npm run bench -- --write-docs -->';
const END = '<!-- end of figures -->';

export interface Run {
  readonly results: readonly Result[];
  readonly machine: readonly string[];
  /** The options of the run. */
  readonly command: string;
}

/**
 * Writes the figures between their marks in docs/performance.md. People explain missed goals below them.
 *
 * @throws Error when the marks are missing.
 */
export async function writeDocs(run: Run): Promise<void> {
  const page = await readFile(PAGE, 'utf8');
  await writeFile(PAGE, betweenMarks(page, [BEGIN, END], figuresOf(run)));
}

/**
 * Replaces the text between the two marks of a page.
 *
 * @throws Error when a mark is missing.
 */
export function betweenMarks(
  page: string,
  [begin, end]: readonly [string, string],
  text: string,
): string {
  const [before, rest] = page.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined) throw new Error('the page has lost its marks');
  return `${before}${begin}\n\n${text}\n\n${end}${after}`;
}

function figuresOf({ results, machine, command }: Run): string {
  const day = new Date().toISOString().slice(0, 10);
  const lines = machine.map((line) => `- ${line}`);
  return [`Measured on ${day} with \`${command}\`.`, '', ...lines, '', goalsList(results)].join(
    '\n',
  );
}
