import { readFile, writeFile } from 'node:fs/promises';
import { mayBePublished, type Result, summarise } from './report.ts';

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
 * Writes the table between its marks in docs/performance.md. Adds a section for each missed goal without one, in which
 * people write the reason. Their text stays.
 *
 * @throws Error when the marks are missing.
 */
export async function writeDocs(run: Run): Promise<void> {
  const page = betweenMarks(await readFile(PAGE, 'utf8'), [BEGIN, END], figuresOf(run));
  const after = page.slice(page.indexOf(END));
  await writeFile(PAGE, `${page.trimEnd()}\n${placesFor(run, after)}`);
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
  const rows = results.map(({ row: { name, about } }) => `- **${name}**: ${about}`);
  return [
    `Measured on ${day} with \`${command}\`.`,
    '',
    ...machine.map((line) => `- ${line}`),
    '',
    summarise(results),
    '',
    ...rows,
  ].join('\n');
}

/** Sections for missed goals that the page does not explain yet. */
function placesFor({ results }: Run, after: string): string {
  return results
    .filter(mayBePublished)
    .flatMap(({ row, figures }) => figures.map((figure) => ({ row, ...figure })))
    .filter(({ met }) => met === false)
    .map(({ row, name, value, goal }) => ({ title: `### ${row.name}: ${name}`, value, goal }))
    .filter(({ title }) => !after.includes(`${title}\n`))
    .map(({ title, value, goal }) =>
      ['', title, '', `Measured ${value}, goal ${goal}.`, '', '- Why:', '- Tried:', ''].join('\n'),
    )
    .join('');
}
