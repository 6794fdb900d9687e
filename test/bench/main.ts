import { Command } from 'commander';
import { hasFailed, mayBePublished } from './report.ts';
import { ROWS } from './rows/all.ts';
import { runRows } from './run-rows.ts';

interface Options {
  readonly only: string[];
  readonly quick: boolean;
  readonly writeDocs: boolean;
  readonly profile: boolean;
  readonly json?: string;
}

// What was started ends with this process, by its exit; a signal alone would leave it running.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const program = new Command('npm run bench --')
  .description('Measures what docs/performance.md promises. Needs Linux, Java 17 and Maven.')
  .option('--only <row...>', `rows: ${ROWS.map(({ name }) => name).join(', ')}`, [])
  .option('--quick', 'short runs, to see that it works; its figures say little', false)
  .option('--profile', 'print where the processes spent their time; costs some itself', false)
  .option('--write-docs', 'put the table into docs/performance.md', false)
  .option('--json <file>', 'write the figures as JSON')
  .addHelpText(
    'after',
    '\nStatus 1: a row did not run. Status 2: others took over 2 % of the machine, so a row is not published.',
  )
  .action(run);
await program.parseAsync();

async function run(o: Options): Promise<void> {
  const unknown = o.only.filter((name) => !ROWS.some((row) => row.name === name));
  if (unknown.length > 0) program.error(`no such row: ${unknown.join(', ')}`);
  if (o.quick && o.writeDocs) program.error('figures of --quick are not for the page');
  const rows = ROWS.filter(({ name }) => o.only.length === 0 || o.only.includes(name));
  const results = await runRows({ ...o, rows });
  if (results.some(hasFailed)) process.exit(1);
  process.exit(o.quick || results.every(mayBePublished) ? 0 : 2);
}
