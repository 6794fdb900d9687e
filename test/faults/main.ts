import { writeFile } from 'node:fs/promises';
import { type Options, parseOptions } from './options.ts';
import { randomOf } from './random.ts';
import { type Finished, jsonOf, markdownOf, passes, type Run, writeDocs } from './report.ts';
import type { Outcome, Row } from './row.ts';
import { ROWS } from './rows/all.ts';
import { keepLogs } from './system/logs.ts';
import { type System, startSystem } from './system/system.ts';

// `npm run test:faults`: breaks the real system on purpose, and holds what it promised against what arrived.

// Each of the many processes is ended with us.
process.setMaxListeners(100);

// So that an interrupted run leaves no processes behind: they are killed on exit.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    process.stderr.write(`ended by ${signal}\n`);
    process.exit(130);
  });
}

const startedAt = performance.now();
const say = (text: string): void => {
  const at = ((performance.now() - startedAt) / 1_000).toFixed(1).padStart(7);
  process.stdout.write(`${at}  ${text}\n`);
};

function chosen({ only }: Options): readonly Row[] {
  if (only.length === 0) return ROWS;
  const rows = ROWS.filter(({ name }) => only.some((wanted) => name.startsWith(wanted)));
  if (rows.length === 0)
    throw new Error(`no such row; there are ${ROWS.map((row) => row.name).join(', ')}`);
  return rows;
}

/** Runs the rows one after another over one system; after a row that fails the next gets a fresh one. */
async function runRows(options: Options): Promise<Run> {
  const finished: Finished[] = [];
  const random = randomOf(options.seed);
  let system: System | undefined;
  try {
    for (const row of chosen(options)) {
      system ??= await startSystem(say);
      say(`${row.name}: ${row.fault}`);
      const began = performance.now();
      const { full, slack } = options;
      const context = { system, random: random.fork(row.name), full, slack, say };
      const outcome = await within(row, options, row.run(context)).catch(failed);
      const one = { row, outcome, tookMs: performance.now() - began };
      finished.push(one);
      say(`${row.name}: ${passes(one) ? 'holds' : 'DOES NOT HOLD'}; ${outcome.figures.join('; ')}`);
      if (passes(one) && !(row.leavesMess && full)) continue;
      for (const problem of outcome.problems) say(`  ${problem}`);
      if (!passes(one)) say(`  logs are kept in ${await keepLogs(system.folder, row.name)}`);
      await system.stop();
      system = undefined;
    }
  } finally {
    await system?.stop();
  }
  return { ...options, startedAt: new Date(), finished };
}

/** A row that hangs must not hang the suite. */
async function within(
  row: Row,
  { full, slack }: Options,
  work: Promise<Outcome>,
): Promise<Outcome> {
  const limit = (full ? row.budgetMs.full : row.budgetMs.short) * slack;
  let timer: NodeJS.Timeout | undefined;
  const overdue = new Promise<never>((_done, fail) => {
    timer = setTimeout(() => fail(new Error(`not over after ${limit / 1_000} s`)), limit);
  });
  return Promise.race([work, overdue]).finally(() => clearTimeout(timer));
}

function failed(error: unknown): Outcome {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const cause = error instanceof Error && error.cause ? ` (${String(error.cause)})` : '';
  const none = { trials: 0, inFlight: 0, lost: 0, duplicates: 0, unexplained: 0, figures: [] };
  return { ...none, problems: [`${text}${cause}`] };
}

async function main(): Promise<void> {
  const options = parseOptions(process.argv.slice(2));
  if (options.list) {
    for (const { name, fault } of ROWS) process.stdout.write(`${name.padEnd(20)} ${fault}\n`);
    return;
  }
  say(`seed ${options.seed}, ${options.full ? 'full' : 'short'} form`);
  const run = await runRows(options);
  process.stdout.write(`\n${markdownOf(run)}`);
  if (options.json) await writeFile(options.json, jsonOf(run));
  if (options.writeDocs) await writeDocs(run);
  const broken = run.finished.filter((one) => !passes(one)).length;
  say(`${run.finished.length - broken} of ${run.finished.length} rows hold; seed ${options.seed}`);
  process.exitCode = broken === 0 ? 0 : 1;
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
// What a failed row left behind must not keep the process alive.
process.exit();
