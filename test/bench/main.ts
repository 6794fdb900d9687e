import { Command, InvalidArgumentError } from 'commander';
import { addCapacityCommand } from './capacity/capacity-command.ts';
import { compareCommits } from './compare/compare-commits.ts';
import { hasFailed, mayBePublished } from './report.ts';
import { ROWS } from './rows/all.ts';
import { soak } from './rows/soak.ts';
import { runRows } from './run-rows.ts';

interface Options {
  readonly only: string[];
  readonly quick: boolean;
  readonly writeDocs: boolean;
  readonly json?: string;
  readonly compare?: string;
  readonly pairs: number;
  readonly peerBin?: string;
}

// On a signal the process exits normally, which stops its child processes.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

// Each of the processes that are started adds a listener.
process.setMaxListeners(50);

const ONLY_PRINT = { quick: false, writeDocs: false };

const program = new Command('npm run bench --')
  .description('Measures what docs/performance.md promises. Needs Linux, Java 17 and Maven.')
  .option('--only <row...>', `rows: ${ROWS.map(({ name }) => name).join(', ')}`, [])
  .option('--quick', 'short runs, to see that the bench works; the figures are not precise', false)
  .option('--write-docs', 'write the table into docs/performance.md', false)
  .option('--json <file>', 'write the figures as JSON')
  .option('--compare <commit>', 'run this checkout and a commit alternately, and print ratios')
  .option('--pairs <count>', 'number of runs of each with --compare', wholeNumber, 4)
  .option('--peer-bin <folder>', 'programs of the row peers: outpost, outpost-server, svix-server')
  .addHelpText(
    'after',
    '\nStatus 1: a row did not run. Status 2: the background load was above 2 % of the machine, so a row is not published.',
  )
  .action(run);
// Both commands have --quick. After the command name it belongs to the command.
program.enablePositionalOptions();
addCapacityCommand(program);
program
  .command('soak')
  .description(
    'Runs constant load for an hour, and measures memory growth and lost or repeated webhooks.',
  )
  .option('--minutes <count>', 'how long', wholeNumber, 60)
  .action(async ({ minutes }: { minutes: number }) => {
    const results = await runRows({ ...ONLY_PRINT, rows: [soak(minutes)] });
    const isMet = results.every(({ figures }) => figures.every(({ met }) => met !== false));
    process.exit(isMet ? 0 : 1);
  });
await program.parseAsync();

async function run(o: Options): Promise<void> {
  const unknown = o.only.filter((name) => !ROWS.some((row) => row.name === name));
  if (unknown.length > 0) program.error(`no such row: ${unknown.join(', ')}`);
  if (o.quick && o.writeDocs) program.error('--write-docs does not accept the figures of --quick');
  const rows = ROWS.filter(({ name }) => o.only.length === 0 || o.only.includes(name));
  if (o.compare !== undefined) {
    if (o.writeDocs || o.json)
      program.error('--compare only prints ratios: it takes none of the other options');
    const names = rows.map(({ name }) => name);
    const isQuiet = await compareCommits({ ...o, commit: o.compare, rows: names });
    process.exit(o.quick || isQuiet ? 0 : 2);
  }
  const results = await runRows({ ...o, rows });
  if (results.some(hasFailed)) process.exit(1);
  process.exit(o.quick || results.every(mayBePublished) ? 0 : 2);
}

function wholeNumber(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new InvalidArgumentError('a whole number from 1');
  return value;
}
