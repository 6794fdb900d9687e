import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const TIMEOUT_MS = 60_000;

const stackFile = z.object({
  base_url: z.string(),
  shops: z
    .array(
      z.object({
        api_keys: z.record(z.string(), z.string()),
        fixtures: z.object({
          returns: z.record(z.string(), z.array(z.object({ id: z.number() }))),
        }),
      }),
    )
    .min(1),
});

/** The running local stack. */
export interface NpmStart {
  /** The first process. It started all others. */
  readonly pid: number;
  /** Time from the command to the first 200 of GET return details. Seconds. */
  readonly seconds: number;
}

/**
 * Runs `npm start` with new data, and then `work`, which starts after the first successful response.
 *
 * @param home the home directory, which has the cache of the stack; that of the user when absent.
 * @throws Error when there is no response within a minute.
 */
export async function withNpmStart<T>(
  work: (started: NpmStart) => Promise<T>,
  home = homedir(),
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'rms-bench-start-'));
  const stack = join(folder, 'stack.json');
  const began = performance.now();
  const child = spawn('npm', ['start', '--', '--stack', stack], {
    cwd: ROOT,
    stdio: 'ignore',
    env: { ...process.env, NODE_OPTIONS: '', HOME: home },
  });
  const gone = once(child, 'exit');
  const killWithUs = () => child.kill('SIGTERM');
  process.once('exit', killWithUs);
  try {
    await untilAnswered(stack);
    const seconds = (performance.now() - began) / 1_000;
    return await work({ pid: child.pid ?? 0, seconds });
  } finally {
    child.kill('SIGTERM');
    await gone;
    process.removeListener('exit', killWithUs);
    await rm(folder, { recursive: true, force: true });
  }
}

async function untilAnswered(stack: string): Promise<void> {
  for (const end = performance.now() + TIMEOUT_MS; performance.now() < end; await sleep(10)) {
    const text = await readFile(stack, 'utf8').catch(() => undefined);
    if (text && (await answers(stackFile.parse(JSON.parse(text))).catch(() => false))) return;
  }
  throw new Error('npm start did not respond');
}

async function answers({ base_url, shops }: z.infer<typeof stackFile>): Promise<boolean> {
  const [shop] = shops;
  const id = shop?.fixtures.returns.open?.[0]?.id;
  const { status } = await fetch(
    `${base_url}/api/2026-10/warehouse/return/details?return_id=${id}`,
    { headers: { 'X-Authorization': shop?.api_keys.all ?? '' } },
  );
  return status === 200;
}
