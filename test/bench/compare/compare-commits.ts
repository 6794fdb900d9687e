import { execFile, execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdtemp, readFile, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { runNode } from '../../kit/process.ts';
import { backgroundLoadFigure, createLoadMeter, sharesOf } from '../background-load.ts';
import {
  comparedFigures,
  comparedTable,
  type Figures,
  parseOutput,
  type Side,
  turnsOf,
} from './commits.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../../', import.meta.url)).replace(/\/$/, '');
/** Time limit of one run. Milliseconds. */
const TIMEOUT_MS = 60 * 60_000;

export interface CompareOptions {
  readonly commit: string;
  readonly rows: readonly string[];
  readonly pairs: number;
  readonly quick: boolean;
}

/**
 * Runs the bench of this checkout and of a commit alternately, each with its own services and data, and prints the
 * figures of both.
 *
 * @returns whether the background load was low enough for the ratios.
 */
export async function compareCommits(o: CompareOptions): Promise<boolean> {
  const other = await checkOut(o.commit);
  const shares = createLoadMeter(process.pid);
  const found: Record<Side, Figures[]> = { ours: [], theirs: [] };
  try {
    if (await other.hasOtherBench()) {
      say('The two benches may differ. Only figures that both have are compared.');
    }
    const turns = turnsOf(o.pairs);
    for (const [at, side] of turns.entries()) {
      const folder = side === 'ours' ? ROOT : other.folder;
      say(`${at + 1} of ${turns.length}: ${side === 'ours' ? 'this checkout' : other.name}`);
      const endSlice = shares.begin();
      found[side].push(await turn(folder, o));
      endSlice();
    }
  } finally {
    other.remove();
  }
  say(`\n${comparedTable(comparedFigures(found.ours, found.theirs), other.name)}`);
  const { name, value, met } = backgroundLoadFigure(sharesOf(shares.take()));
  say(`\n${name}: ${value}${met ? '' : ' - too high: do not publish these ratios'}`);
  return met === true;
}

/** The figures of one run. Background load is judged over all runs, not by the bench of the commit. */
async function turn(folder: string, { rows, quick }: CompareOptions): Promise<Figures> {
  const main = join(folder, 'test/bench/main.ts');
  // Benches of some earlier commits compare with Outpost, unless this says no.
  const hasPeer = (await readFile(main, 'utf8')).includes('--no-peer');
  const args = [main, '--only', ...rows];
  if (quick) args.push('--quick');
  if (hasPeer) args.push('--no-peer');
  const { stdout, stderr } = await runNode({
    args,
    cwd: folder,
    env: process.env,
    timeoutMs: TIMEOUT_MS,
    onParentExit: 'SIGTERM',
  });
  const figures = parseOutput(stdout, rows);
  const missing = rows.filter(
    (row) => ![...figures.keys()].some((key) => key.startsWith(`${row} |`)),
  );
  if (missing.length === 0) return figures;
  const text = `${stdout}${stderr}`.slice(-2_000);
  throw new Error(`no figures of ${missing.join(', ')} in ${folder}:\n${text}`);
}

interface OtherCheckout {
  readonly folder: string;
  /** The short hash for messages. */
  readonly name: string;
  hasOtherBench(): Promise<boolean>;
  remove(): void;
}

/** Creates a git worktree in a temporary folder. It is removed even when the run is interrupted. */
async function checkOut(commit: string): Promise<OtherCheckout> {
  const git = async (...args: string[]) => (await run('git', args, { cwd: ROOT })).stdout.trim();
  const id = await git('rev-parse', '--verify', `${commit}^{commit}`);
  const parent = await mkdtemp(join(tmpdir(), 'rms-bench-compare-'));
  const folder = join(parent, 'checkout');
  const remove = () => {
    process.removeListener('exit', remove);
    rmSync(parent, { recursive: true, force: true });
    execFileSync('git', ['worktree', 'prune'], { cwd: ROOT });
  };
  process.once('exit', remove);
  try {
    await git('worktree', 'add', '--detach', folder, id);
    await addPackages(folder);
  } catch (error) {
    remove();
    throw error;
  }
  return {
    folder,
    name: id.slice(0, 7),
    hasOtherBench: async () => (await git('diff', '--name-only', id, '--', 'test/bench')) !== '',
    remove,
  };
}

/** Links the packages of this checkout when both lock files are equal. Otherwise installs those of the commit. */
async function addPackages(folder: string): Promise<void> {
  const lock = (where: string) => readFile(join(where, 'package-lock.json'), 'utf8');
  const [ours, theirs] = await Promise.all([lock(ROOT), lock(folder)]);
  if (ours === theirs) {
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    return;
  }
  say('package-lock.json differs: npm ci');
  await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, timeout: TIMEOUT_MS });
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
