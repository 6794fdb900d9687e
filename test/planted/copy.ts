import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Bug, planted } from './bug.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '');

/** A copy of the checkout in which bugs are planted. */
export interface Copy {
  readonly folder: string;
  /** Plants a bug during `work`. */
  withBug<T>(bug: Bug, work: () => Promise<T>): Promise<T>;
  remove(): Promise<void>;
}

/**
 * Creates a git worktree beside the checkout, where `node_modules` can be hard-linked. It contains uncommitted changes,
 * but no untracked files.
 */
export async function makeCopy(): Promise<Copy> {
  const git = async (...args: string[]) => (await run('git', args, { cwd: ROOT })).stdout.trim();
  const folder = await mkdtemp(`${ROOT}-planted-`);
  // Removes the folder even when the run is interrupted.
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  // Without the refresh `stash create` fails for a file with only a new modification time.
  await git('update-index', '-q', '--refresh').catch(() => {});
  await git('worktree', 'add', '--detach', folder, (await git('stash', 'create')) || 'HEAD');
  await run('cp', ['-al', join(ROOT, 'node_modules'), join(folder, 'node_modules')]);
  return {
    folder,
    async withBug(bug, work) {
      const file = join(folder, bug.file);
      const text = await readFile(file, 'utf8');
      await writeFile(file, planted(bug, text));
      return work().finally(() => writeFile(file, text));
    },
    async remove() {
      remove();
      await git('worktree', 'prune');
    },
  };
}
