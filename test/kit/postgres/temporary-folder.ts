import { mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { alive } from '../../../deploy/local/end-process.ts';

/** Where Linux mounts a file system in memory. */
const MEMORY = '/dev/shm';

/** The `f_type` of a file system in memory, see statfs(2). */
const TMPFS = 0x0102_1994;

/** A complete run uses less than 2 GiB at a time. */
const MIN_FREE_BYTES = 4 * 2 ** 30;

const PREFIX = 'rms-test-';

/**
 * Creates a folder for the data of a test's database. The caller removes it. It is in memory if there is enough space:
 * PostgreSQL copies the 1,100 files of a test database in 30 ms of CPU there, on a disk in 150 to 1,000 ms. Tests kill
 * processes, never the machine, so no data is lost.
 */
export function temporaryFolder(): string {
  const parent = hasSpace(MEMORY) ? MEMORY : tmpdir();
  if (parent === MEMORY) removeLeftovers(parent);
  return mkdtempSync(join(parent, `${PREFIX}${process.pid}-`));
}

function hasSpace(folder: string): boolean {
  try {
    const { type, bavail, bsize } = statfsSync(folder);
    const free = Math.min(bavail * bsize, process.availableMemory());
    return type === TMPFS && free >= MIN_FREE_BYTES;
  } catch {
    return false;
  }
}

/** Removes the folders of killed runs, which would use memory until the machine restarts. */
export function removeLeftovers(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = Number(
      name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('-', 1)[0] : Number.NaN,
    );
    if (pid > 0 && !alive(pid)) rmSync(join(parent, name), { recursive: true, force: true });
  }
}
