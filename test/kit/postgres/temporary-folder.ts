import { mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { alive } from '../../../deploy/local/end-process.ts';

/** Where Linux mounts a file system in memory. */
const MEMORY = '/dev/shm';

/** The `f_type` of such a file system, see statfs(2). */
const TMPFS = 0x0102_1994;

/** A complete run keeps less than 2 GiB at a time. */
const ENOUGH_BYTES = 4 * 2 ** 30;

const PREFIX = 'rms-test-';

/**
 * A new folder for the data of a test's database; the caller removes it. It is in memory if there is enough: there
 * PostgreSQL copies the 1,100 files of a test database in 30 ms of CPU, on a disk in 150 to 1,000. Tests kill
 * processes, never the machine, so no data is lost.
 */
export function temporaryFolder(): string {
  const parent = isRoomy(MEMORY) ? MEMORY : tmpdir();
  if (parent === MEMORY) removeLeftovers(parent);
  return mkdtempSync(join(parent, `${PREFIX}${process.pid}-`));
}

function isRoomy(folder: string): boolean {
  try {
    const { type, bavail, bsize } = statfsSync(folder);
    const free = Math.min(bavail * bsize, process.availableMemory());
    return type === TMPFS && free >= ENOUGH_BYTES;
  } catch {
    return false;
  }
}

/** Removes folders of killed runs, which would use memory until the machine restarts. */
export function removeLeftovers(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = Number(
      name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('-', 1)[0] : Number.NaN,
    );
    if (pid > 0 && !alive(pid)) rmSync(join(parent, name), { recursive: true, force: true });
  }
}
