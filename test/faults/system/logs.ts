import { copyFile, mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RESULTS_NOT_RECORDED } from '../../../services/webhooks/delivery/dispatcher.ts';

/** Copies the logs of all processes out of a folder that will be removed, and returns the new folder. */
export async function keepLogs(folder: string, row: string): Promise<string> {
  const kept = await mkdtemp(join(tmpdir(), `rms-faults-logs-${row}-`));
  const logs = (await readdir(folder)).filter((name) => name.endsWith('.log'));
  await Promise.all(logs.map((name) => copyFile(join(folder, name), join(kept, name))));
  const server = join(folder, 'postgres', 'postgres.log');
  await copyFile(server, join(kept, 'postgres.log'));
  return kept;
}

/** Number of attempts that other processes took over since then, according to the logs of the webhooks processes. */
export async function attemptsPassedOn(folder: string, sinceMs: number): Promise<number> {
  const logs = (await readdir(folder)).filter((name) => /^webhooks-\d+\.log$/.test(name));
  const texts = await Promise.all(logs.map((name) => readFile(join(folder, name), 'utf8')));
  return (
    texts
      .flatMap((text) => text.split('\n'))
      // The last line of a killed process may be incomplete.
      .filter((line) => line.includes(RESULTS_NOT_RECORDED) && line.endsWith('}'))
      .map((line) => JSON.parse(line) as { readonly time: string; readonly attempts: number })
      .filter(({ time }) => Date.parse(time) >= sinceMs)
      .reduce((sum, { attempts }) => sum + attempts, 0)
  );
}
