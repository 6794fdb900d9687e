import { writeFile } from 'node:fs/promises';
import { randomOf } from '../kit/random.ts';
import { ALONE, watchCrowding } from './crowding.ts';
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
import { type ApartRow, type Outcome, type Row, type SharedRow, someOf } from './row.ts';
import { ROWS } from './rows/all.ts';
import { keepLogs } from './system/logs.ts';
import { type System, startSystem } from './system/system.ts';
import { untilSure } from './until-sure.ts';

// `npm run test:faults`: breaks the real system on purpose, and compares its promises with what arrived.

// Each of the many processes is ended with us.
process.setMaxListeners(100);

// So that an interrupted run leaves no processes behind: they are killed on exit.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    process.stderr.write(`ended by ${signal}\n`);
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

/** Runs the rows one after another over one system. Rows that need no system run beside them. */
async function runRows(options: Options): Promise<Run> {
  const rows = chosen(options);
  const began = performance.now();
  const random = randomOf(options.seed);
  const contextOf = ({ name }: Row, run: number) => {
    // The seed decides the first run of a row. Another run uses other random choices.
    const stream = run === 1 ? name : `${name}, run ${run}`;
    return { ...options, random: random.fork(stream), say };
  };
  const systems = shareSystem();

  const runApart = (row: ApartRow): Promise<Finished> =>
    untilSure(options, say, (run) => finish(row, options, () => row.runApart(contextOf(row, run))));

  const runShared = (row: SharedRow): Promise<Finished> =>
    untilSure(options, say, async (run) => {
      say(`${row.name}: ${row.fault}`);
      const system = await systems.get();
      const crowding = options.full ? ALONE : watchCrowding();
      const context = {
        ...contextOf(row, run),
        system,
        get slack() {
          return options.slack * crowding.factor();
        },
      };
      const one = await finish(row, options, async () => {
        const outcome = await checked(system, await row.run(context));
        return crowded(outcome, crowding.factor());
      });
      crowding.stop();
      // The rest of a failed row must not affect the next one.
      if (!passes(one)) say(`  logs are kept in ${await keepLogs(system.folder, row.name)}`);
      if (!passes(one) || (row.leavesMess && options.full)) await systems.end();
      return one;
    });

  const apart = rows.filter((row) => 'runApart' in row).map(runApart);
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

/** The system that rows share: started when one needs it, a fresh one after its end. */
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

/** Runs one row to its end, however it ends. */
async function finish(row: Row, options: Options, work: () => Promise<Outcome>): Promise<Finished> {
  const began = performance.now();
  const outcome = await within(row, options, work()).catch(failed);
  const one = { row, outcome, tookMs: performance.now() - began };
  say(`${row.name}: ${passes(one) ? 'holds' : 'DOES NOT HOLD'}; ${outcome.figures.join('; ')}`);
  for (const wrong of wrongOf(outcome)) say(`  ${wrong}`);
  return one;
}

/** A smaller factor is not reported. */
const NOTICEABLE = 1.2;

/** Adds to the measured text by which factor the promised times were extended. */
function crowded(outcome: Outcome, factor: number): Outcome {
  if (factor < NOTICEABLE) return outcome;
  const figure = `others use the machine: judged × ${factor.toFixed(1)} more`;
  return { ...outcome, figures: [...outcome.figures, figure] };
}

/** No process of the database may have ended but by our own hand. */
async function checked({ database }: System, outcome: Outcome): Promise<Outcome> {
  const deaths = someOf(await database.deaths());
  return { ...outcome, problems: [...outcome.problems, ...deaths] };
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
  return { ...none, problems: [`${text}${cause}`], doubts: [] };
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
// What a failed row left behind must not keep the process alive.
process.exit();
