import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runNode } from '../kit/process.ts';

/** Time limit for one run of tests, or of one row. Milliseconds. */
const TIMEOUT_MS = 600_000;

/** A failed test. */
export interface Failure {
  /** The full name. */
  readonly test: string;
  /** The first line of the error. */
  readonly reason: string;
}

/** The result of a run of checks. */
export interface Checked {
  readonly failures: readonly Failure[];
  /** Checks that could not run, for example because a file does not load. They do not count as catching the bug. */
  readonly broken: readonly string[];
}

/** The folder and server of the checks. */
export interface Place {
  /** The root of the copy. */
  readonly folder: string;
  /** A PostgreSQL that all runs share, because its start takes longer than most tests. */
  readonly postgresUrl: string;
}

/** Runs a program of the copy with Node, and returns its exit code and output. Kills it after the time limit. */
async function node(
  { folder, postgresUrl }: Place,
  args: readonly string[],
): Promise<{ code: number | null; said: string }> {
  const env = { ...process.env, TEST_POSTGRES_URL: postgresUrl };
  const { code, stdout, stderr } = await runNode({ args, cwd: folder, env, timeoutMs: TIMEOUT_MS });
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
  const jest = ['node_modules/jest/bin/jest.js', '--json', `--outputFile=${report}`];
  try {
    const { said } = await node(place, [...jest, '--runTestsByPath', ...files]);
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

/** The first line without terminal colours. */
function firstLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: terminal colours are control characters.
  const plain = text.replaceAll(/\u001b\[[\d;]*m/g, '');
  return (
    plain
      .split('\n')
      .find((line) => line.trim() !== '')
      ?.trim() ?? ''
  );
}
