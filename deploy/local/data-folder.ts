import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * Marks a kept data folder as in use by this process. Two stacks on one folder would stop each
 * other's database, taking it for one that a killed run left behind.
 *
 * @throws Error naming the process that uses it; the mark of a dead process counts for nothing.
 */
export async function claimDataFolder(folder: string): Promise<{ stop(): Promise<void> }> {
  await mkdir(folder, { recursive: true });
  const mark = join(folder, 'in-use-by');
  const text = await readFile(mark, 'utf8').catch(() => '');
  const [pid = '', ...command] = text.trimEnd().split(' ');
  if (text && pid !== String(process.pid) && (await commandOf(pid)) === command.join(' ')) {
    throw new Error(`the data in ${folder} is in use by process ${pid}: stop it first`);
  }
  await writeFile(mark, `${process.pid} ${await commandOf(String(process.pid))}\n`);
  return { stop: () => rm(mark, { force: true }) };
}

/** How a process was started, because process ids are used again; undefined when there is none. */
async function commandOf(pid: string): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() =>
    run('ps', ['-ww', '-o', 'args=', '-p', pid]).then(
      ({ stdout }) => stdout,
      () => undefined,
    ),
  );
  return text?.replaceAll('\0', ' ').trim();
}
