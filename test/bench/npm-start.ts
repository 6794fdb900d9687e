import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PATIENCE_MS = 60_000;

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

/** The local stack while it runs. */
export interface NpmStart {
  /** All processes of it are below this one. */
  readonly pid: number;
  /** From the command to the first 200 of GET return details. */
  readonly seconds: number;
}

/**
 * Runs `npm start` with new data for the time of `work`, which starts when it has answered.
 *
 * @throws Error when it does not answer within a minute.
 */
export async function withNpmStart<T>(work: (started: NpmStart) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'rms-bench-start-'));
  const stack = join(folder, 'stack.json');
  const began = performance.now();
  const child = spawn('npm', ['start', '--', '--stack', stack], {
    cwd: ROOT,
    stdio: 'ignore',
    env: { ...process.env, NODE_OPTIONS: '' },
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
  for (const end = performance.now() + PATIENCE_MS; performance.now() < end; await sleep(10)) {
    const text = await readFile(stack, 'utf8').catch(() => undefined);
    if (text && (await answers(stackFile.parse(JSON.parse(text))).catch(() => false))) return;
  }
  throw new Error('npm start did not answer');
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
