import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startPostgres } from '../../deploy/local/postgres/start.ts';
import type { Bug } from './bug.ts';
import { BUGS } from './bugs/all.ts';
import { type Checked, type Failure, type Place, runRow, runTests } from './checks.ts';
import { type Copy, makeCopy } from './copy.ts';

// `npm run test:planted`: plants one bug after another in a copy of the checkout, and checks whether tests fail.

/** Maximum number of bugs that no test catches. */
const MAX_SURVIVORS = 2;

const USAGE = `usage: npm run test:planted -- [options]
  --only <name>  this bug; may be given several times
  --list         the bugs`;

/** The result of a bug. */
interface Fate {
  readonly bug: Bug;
  /** Absent when no check failed. */
  readonly caughtBy?: Failure;
  /** Why a check could not run. This does not count as catching the bug. */
  readonly broken?: string;
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);

function chosen(only: readonly string[]): readonly Bug[] {
  const unknown = only.filter((name) => !BUGS.some((bug) => bug.name === name));
  if (unknown.length > 0) throw new Error(`there is no bug ${unknown.join(', ')}\n${USAGE}`);
  return only.length === 0 ? BUGS : BUGS.filter(({ name }) => only.includes(name));
}

/** Checks that all tests pass without a bug. A failing test would seem to catch every bug. */
async function assertSound(place: Place, bugs: readonly Bug[]): Promise<void> {
  const files = [...new Set(bugs.flatMap(({ tests }) => tests))];
  say(`without a bug: ${files.length} test files`);
  let checked = await runTests(place, files);
  if (checked.failures.length > 0) checked = await runTests(place, files);
  const wrong = [...checked.broken, ...checked.failures.map(({ test }) => test)];
  if (wrong.length > 0) throw new Error(`fails without a bug: ${wrong.join('; ')}`);
}

/** Runs one file after the other, then the row, until a check fails. */
async function fateOf(copy: Copy, place: Place, bug: Bug): Promise<Fate> {
  const checks: (() => Promise<Checked>)[] = bug.tests.map((file) => () => runTests(place, [file]));
  const { row } = bug;
  if (row !== undefined) checks.push(() => runRow(place, row));
  return copy.withBug(bug, async () => {
    for (const check of checks) {
      const { failures, broken } = await check();
      const [caughtBy] = failures;
      if (caughtBy) return { bug, caughtBy };
      if (broken.length > 0) return { bug, broken: broken.join('; ') };
    }
    return { bug };
  });
}

function tableOf(fates: readonly Fate[]): string {
  const lines = fates.map(({ bug, caughtBy, broken }) => {
    const survived = ['**SURVIVED**', broken].filter(Boolean).join(': ');
    const by = caughtBy ? `${caughtBy.test}: ${caughtBy.reason}` : survived;
    return `| ${bug.name} | ${bug.promise} | ${by.replaceAll('|', '\\|')} |`;
  });
  return ['| Bug | Promise broken | Caught by |', '|---|---|---|', ...lines].join('\n');
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true, default: [] },
      list: { type: 'boolean', default: false },
    },
  });
  if (values.list) {
    for (const { name, promise } of BUGS) say(`${name.padEnd(32)} ${promise}`);
    return;
  }
  const bugs = chosen(values.only);
  const copy = await makeCopy();
  const data = mkdtempSync(join(tmpdir(), 'rms-planted-db-'));
  process.once('exit', () => rmSync(data, { recursive: true, force: true }));
  const postgres = await startPostgres({ folder: data, durable: false });
  const place = { folder: copy.folder, postgresUrl: postgres.url };
  try {
    await assertSound(place, bugs);
    const fates: Fate[] = [];
    for (const bug of bugs) {
      const fate = await fateOf(copy, place, bug);
      fates.push(fate);
      say(`${bug.name}: ${fate.caughtBy ? `caught by ${fate.caughtBy.test}` : 'SURVIVED'}`);
    }
    const survivors = fates.filter(({ caughtBy }) => !caughtBy).length;
    say(`\n${tableOf(fates)}\n\n${fates.length - survivors} of ${fates.length} caught`);
    const most = values.only.length > 0 ? 0 : MAX_SURVIVORS;
    process.exitCode = survivors > most ? 1 : 0;
  } finally {
    await postgres.stop();
    await copy.remove();
  }
}

// On these signals the process exits normally, which kills its child processes.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => process.exit(130));
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
