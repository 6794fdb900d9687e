import { copyFile, mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Copies the logs of all processes out of a folder that is about to be removed; answers where to. */
export async function keepLogs(folder: string, row: string): Promise<string> {
  const kept = await mkdtemp(join(tmpdir(), `rms-faults-logs-${row}-`));
  const logs = (await readdir(folder)).filter((name) => name.endsWith('.log'));
  await Promise.all(logs.map((name) => copyFile(join(folder, name), join(kept, name))));
  const server = join(folder, 'postgres', 'postgres.log');
  await copyFile(server, join(kept, 'postgres.log'));
  return kept;
}
