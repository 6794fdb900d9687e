import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runNode } from '../kit/process.ts';

/** Longest time of one run of tests, or of one row. Milliseconds. */
const LONGEST_MS = 600_000;

/** A test that failed. */
export interface Failure {
  /** Its full name. */
  readonly test: string;
  /** First line of its error. */
  readonly reason: string;
}

/** What a run of checks came to. */
export interface Checked {
  readonly failures: readonly Failure[];
  /** Checks that could not run, such as a file that does not load. They do not count as catching the bug. */
  readonly broken: readonly string[];
}

/** Where checks run. */
export interface Place {
  /** The root of the copy. */
  readonly folder: string;
  /** A PostgreSQL that all runs of tests share: to start one takes longer than most tests. */
  readonly postgresUrl: string;
}

/** Runs a program of the copy with Node. Resolves to its exit code and output. Kills it when it takes too long. */
async function node(
  { folder, postgresUrl }: Place,
  args: readonly string[],
): Promise<{ code: number | null; said: string }> {
  const env = { ...process.env, TEST_POSTGRES_URL: postgresUrl };
  const { code, stdout, stderr } = await runNode({ args, cwd: folder, env, timeoutMs: LONGEST_MS });
  return { code, said: `${stdout}${stderr}` };
}

interface JestReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

/** Runs test files, each of which must exist. */
export async function runTests(place: Place, files: readonly string[]): Promise<Checked> {
  const out = await mkdtemp(join(tmpdir(), 'rms-planted-'));
  const report = join(out, 'report.json');
  const flags = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning'];
  const jest = ['node_modules/jest/bin/jest.js', '--json', `--outputFile=${report}`];
  try {
    const { said } = await node(place, [...flags, ...jest, '--runTestsByPath', ...files]);
    const text = await readFile(report, 'utf8').catch(() => '');
    if (text === '') return { failures: [], broken: [firstLine(said.slice(-500))] };
    return checkedOf(JSON.parse(text) as JestReport, files);
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}

function checkedOf({ testResults }: JestReport, files: readonly string[]): Checked {
  const failures = testResults.flatMap(({ assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'failed')
      .map(({ fullName, failureMessages }) => ({
        test: fullName,
        reason: firstLine(failureMessages[0] ?? ''),
      })),
  );
  const unread = testResults.filter(({ assertionResults }) => assertionResults.length === 0);
  const missing = files.filter((file) => !testResults.some(({ name }) => name.endsWith(file)));
  return {
    failures,
    broken: [
      ...unread.map(({ name, message }) => `${name} does not run: ${firstLine(message)}`),
      ...missing.map((file) => `${file} does not exist`),
    ],
  };
}

/** Runs a row of the fault suite in its short form. */
export async function runRow(place: Place, row: string): Promise<Checked> {
  const { code, said } = await node(place, ['test/faults/main.ts', '--only', row]);
  if (code === 0) return { failures: [], broken: [] };
  const line = said.split('\n').find((one) => one.startsWith(`- ${row}`));
  if (line === undefined) return { failures: [], broken: [firstLine(said.slice(-500))] };
  return { failures: [{ test: `fault row ${row}`, reason: line.slice(2) }], broken: [] };
}

/** Without the colours of a terminal. */
function firstLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is how colours are written.
  const plain = text.replaceAll(/\u001b\[[\d;]*m/g, '');
  return (
    plain
      .split('\n')
      .find((line) => line.trim() !== '')
      ?.trim() ?? ''
  );
}
