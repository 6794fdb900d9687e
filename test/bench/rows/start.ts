import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { percentile } from '../../../deploy/local/demo/percentiles.ts';
import { atMost, type Figure, type Row } from '../row.ts';
import { cpuOfTree, memoryOfTree } from '../work.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const PATIENCE_MS = 60_000;
/** Before it counts as idle: what follows a start must have settled. Milliseconds. */
const SETTLE_MS = 5_000;

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

interface Started {
  readonly seconds: number;
  /** Share of a core while idle. */
  readonly cpu: number;
  readonly memory: number;
}

/** The whole local stack: how soon it answers, and what it costs while nobody asks. */
export const start: Row = {
  name: 'start',
  about:
    'npm start on fresh data, from the command to the first 200 of GET return details (the demo data are there then); CPU and memory (PSS) of all its processes, PostgreSQL included, while idle.',
  async run({ quick, platform }) {
    await platform.run([]);
    const runs: Started[] = [];
    const [count, idleMs] = quick ? [1, 5_000] : [5, 30_000];
    for (let at = 0; at < count; at += 1) runs.push(await runOnce(idleMs));
    return figuresOf(runs);
  },
};

function figuresOf(runs: readonly Started[]): Figure[] {
  const median = (of: (one: Started) => number) => percentile(runs.map(of), 0.5);
  const all = (of: (one: Started) => number, digits: number) =>
    runs.map((one) => of(one).toFixed(digits)).join(', ');
  return [
    atMost(5, {
      name: 'cold start to the first 200',
      value: median((one) => one.seconds),
      unit: ' s',
      more: all((one) => one.seconds, 2),
    }),
    atMost(2, {
      name: 'idle CPU',
      value: median((one) => one.cpu * 100),
      unit: ' % of a core',
      more: all((one) => one.cpu * 100, 2),
    }),
    atMost(450, {
      name: 'idle memory',
      value: median((one) => one.memory),
      unit: ' MB',
      digits: 0,
      more: all((one) => one.memory, 0),
    }),
  ];
}

async function runOnce(idleMs: number): Promise<Started> {
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
    await sleep(SETTLE_MS);
    const pid = child.pid ?? 0;
    const before = cpuOfTree(pid);
    const since = performance.now();
    await sleep(idleMs);
    const cpu = (cpuOfTree(pid) - before) / ((performance.now() - since) / 1_000);
    return { seconds, cpu, memory: memoryOfTree(pid) };
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
