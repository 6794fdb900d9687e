import { Command } from 'commander';
import { machineLines } from './machine.ts';
import { startPlatform } from './platform.ts';
import { profiled } from './profile.ts';
import { printRow, summarise } from './report.ts';
import type { Bench, Figure, Row } from './row.ts';
import { ROWS } from './rows/all.ts';
import { FIRST_FREE_SHOP } from './shop.ts';
import { writeDocs } from './write-docs.ts';

interface Options {
  readonly only: string[];
  readonly quick: boolean;
  readonly writeDocs: boolean;
  readonly profile: boolean;
}

const options = new Command('npm run bench --')
  .description('Measures what docs/performance.md promises. Needs Linux, Java 17 and Maven.')
  .option('--only <row...>', `rows: ${ROWS.map(({ name }) => name).join(', ')}`, [])
  .option('--quick', 'short runs, to see that it works; its figures say little', false)
  .option('--profile', 'print where the processes spent their time; costs some itself', false)
  .option('--write-docs', 'put the table into docs/performance.md', false)
  .parse()
  .opts<Options>();

const unknown = options.only.filter((name) => !ROWS.some((row) => row.name === name));
if (unknown.length > 0) throw new Error(`no such row: ${unknown.join(', ')}`);
const wanted = ROWS.filter(({ name }) => options.only.length === 0 || options.only.includes(name));

// What was started ends with this process, by its exit; a signal alone would leave it running.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

let postgresVersion = '';
const results = await runRows(wanted, options);
process.stdout.write(`\n${summarise(results)}\n`);
process.exit(0);

async function runRows(rows: readonly Row[], o: Options): Promise<Map<Row, Figure[]>> {
  const platform = await startPlatform();
  const { rows: versions } = await platform.admin.query('show server_version');
  postgresVersion = String(versions[0]?.server_version);
  let lastShop = FIRST_FREE_SHOP;
  const bench: Bench = {
    quick: o.quick,
    platform,
    watch: (processes, work) => (o.profile ? profiled(processes, work) : work()),
    note: (text) => void process.stdout.write(`  ${text}\n`),
    newShops(count) {
      const first = lastShop + 1n;
      lastShop += BigInt(count);
      return Array.from({ length: count }, (_, at) => first + BigInt(at));
    },
  };
  const found = new Map<Row, Figure[]>();
  try {
    for (const row of rows) {
      process.stdout.write(`\n${row.name}: ${row.about}\n`);
      const figures = await row.run(bench).catch(failed);
      found.set(row, figures);
      printRow(figures);
      // After each row: a run that is cut short keeps what it has measured.
      if (o.writeDocs) await write(found);
    }
  } finally {
    await platform.stop();
  }
  return found;
}

async function write(results: ReadonlyMap<Row, readonly Figure[]>): Promise<void> {
  const command = ['npm run bench --', ...process.argv.slice(2)].join(' ');
  await writeDocs({ results, machine: await machineLines(postgresVersion), command });
}

/** The other rows are run all the same. */
function failed(error: unknown): Figure[] {
  const value = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return [{ name: 'the row', value: value.split('\n', 3).join(' '), goal: 'to run', met: false }];
}
