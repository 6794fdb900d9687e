import { writeFile } from 'node:fs/promises';
import { inspect } from 'node:util';
import { randomOf } from '../kit/random.ts';
import { IDLE_MACHINE, watchMachineLoad } from './machine-load.ts';
import { type Options, parseOptions } from './options.ts';
import {
  type Finished,
  jsonOf,
  markdownOf,
  passes,
  type Run,
  writeDocs,
  wrongOf,
} from './report.ts';
import { type Row, type RowResult, type SeparateRow, type SharedRow, someOf } from './row.ts';
import { ROWS } from './rows/all.ts';
import { keepLogs } from './system/logs.ts';
import { type System, startSystem } from './system/system.ts';
import { withRepeats } from './with-repeats.ts';

// `npm run test:faults`: breaks the running system on purpose, and checks what it promises.

// One listener for each process that is killed with this one.
process.setMaxListeners(100);

// On these signals the process exits normally, which kills its child processes.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    process.stderr.write(`stopped by ${signal}\n`);
    process.exit(130);
  });
}

const startedAt = new Date();
const say = (text: string): void => {
  const at = ((Date.now() - startedAt.getTime()) / 1_000).toFixed(1).padStart(7);
  process.stdout.write(`${at}  ${text}\n`);
};

function chosen({ only }: Options): readonly Row[] {
  if (only.length === 0) return ROWS;
  const rows = ROWS.filter(({ name }) => only.some((wanted) => name.startsWith(wanted)));
  if (rows.length === 0)
    throw new Error(`no such row; there are ${ROWS.map((row) => row.name).join(', ')}`);
  return rows;
}

/** Runs the rows one after another on one system. Rows that need no system run at the same time. */
async function runRows(options: Options): Promise<Run> {
  const rows = chosen(options);
  const began = performance.now();
  const random = randomOf(options.seed);
  const contextOf = ({ name }: Row, run: number) => {
    // The seed decides the first run of a row. Each repeat uses other random choices.
    const stream = run === 1 ? name : `${name}, run ${run}`;
    return { ...options, random: random.fork(stream), say };
  };
  const systems = shareSystem();

  const runSeparately = (row: SeparateRow): Promise<Finished> =>
    withRepeats(options, say, (run) =>
      finish(row, options, () => row.runSeparately(contextOf(row, run))),
    );

  const runShared = (row: SharedRow): Promise<Finished> =>
    withRepeats(options, say, async (run) => {
      say(`${row.name}: ${row.fault}`);
      const system = await systems.get();
      const load = options.full ? IDLE_MACHINE : watchMachineLoad();
      const context = {
        ...contextOf(row, run),
        system,
        get slack() {
          return options.slack * load.factor();
        },
      };
      const one = await finish(row, options, async () => {
        const result = await checked(system, await row.run(context));
        return withSlowdown(result, load.factor());
      });
      load.stop();
      // The remains of a failed row must not affect the next row.
      if (!passes(one)) say(`  logs are kept in ${await keepLogs(system.folder, row.name)}`);
      if (!passes(one) || (row.leavesMess && options.full)) await systems.end();
      return one;
    });

  const apart = rows.filter((row) => 'runSeparately' in row).map(runSeparately);
  const finished: Finished[] = [];
  try {
    for (const row of rows) if ('run' in row) finished.push(await runShared(row));
  } finally {
    await systems.end();
  }
  finished.push(...(await Promise.all(apart)));
  const inOrder = rows.flatMap((row) => finished.filter((one) => one.row === row));
  return { ...options, startedAt, tookMs: performance.now() - began, finished: inOrder };
}

/** The system that rows share. It starts when a row needs it. After it was stopped, the next row gets a new system. */
function shareSystem() {
  let system: System | undefined;
  return {
    async get(): Promise<System> {
      system ??= await startSystem(say);
      return system;
    },
    async end(): Promise<void> {
      const ending = system;
      system = undefined;
      await ending?.stop();
    },
  };
}

/** Runs one row, and reports a failure as its result. */
async function finish(
  row: Row,
  options: Options,
  work: () => Promise<RowResult>,
): Promise<Finished> {
  const began = performance.now();
  const result = await within(row, options, work()).catch(failed);
  const one = { row, result, tookMs: performance.now() - began };
  say(`${row.name}: ${passes(one) ? 'holds' : 'DOES NOT HOLD'}; ${result.figures.join('; ')}`);
  for (const wrong of wrongOf(result)) say(`  ${wrong}`);
  return one;
}

/** Smaller slowdowns are not reported. */
const NOTICEABLE = 1.2;

/** Adds the slowdown by which the time limits were multiplied to the figures. */
function withSlowdown(result: RowResult, factor: number): RowResult {
  if (factor < NOTICEABLE) return result;
  const figure = `others use the machine: judged × ${factor.toFixed(1)} more`;
  return { ...result, figures: [...result.figures, figure] };
}

/** Reports processes of the database that crashed without being killed by the suite. */
async function checked({ database }: System, result: RowResult): Promise<RowResult> {
  const deaths = someOf(await database.deaths());
  return { ...result, problems: [...result.problems, ...deaths] };
}

/** Limits the time of a row, so that a hanging row does not block the suite. */
async function within(
  row: Row,
  { full, slack }: Options,
  work: Promise<RowResult>,
): Promise<RowResult> {
  const limit = (full ? row.budgetMs.full : row.budgetMs.short) * slack;
  let timer: NodeJS.Timeout | undefined;
  const overdue = new Promise<never>((_done, fail) => {
    timer = setTimeout(() => fail(new Error(`not finished after ${limit / 1_000} s`)), limit);
  });
  return Promise.race([work, overdue]).finally(() => clearTimeout(timer));
}

function failed(error: unknown): RowResult {
  const none = { trials: 0, inFlight: 0, lost: 0, duplicates: 0, unexplained: 0, figures: [] };
  // With the causes, and with the errors of an AggregateError.
  return { ...none, problems: [inspect(error)], doubts: [] };
}

async function main(): Promise<void> {
  const options = parseOptions(process.argv.slice(2));
  if (options.list) {
    for (const { name, fault, mustHold } of ROWS)
      process.stdout.write(`${name}: ${fault}\n  must hold: ${mustHold}\n`);
    return;
  }
  say(`seed ${options.seed}, ${options.full ? 'full' : 'short'} form`);
  const run = await runRows(options);
  process.stdout.write(`\n${markdownOf(run)}`);
  if (options.json) await writeFile(options.json, jsonOf(run));
  if (options.writeDocs) await writeDocs(run);
  const broken = run.finished.filter((one) => !passes(one)).length;
  say(`${run.finished.length - broken} of ${run.finished.length} rows hold; seed ${options.seed}`);
  const repeated = run.finished.filter(({ repeats }) => repeats !== undefined);
  if (repeated.length > 0) {
    say(`rows that needed repeats: ${repeated.map(({ row }) => row.name).join(', ')}`);
  }
  process.exitCode = broken === 0 ? 0 : 1;
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
// The remains of a failed row must not keep the process alive.
process.exit();
