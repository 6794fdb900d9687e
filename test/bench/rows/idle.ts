import { setTimeout as sleep } from 'node:timers/promises';
import type { Figure } from '../figure.ts';
import { startMeter } from '../measure.ts';
import { withNpmStart } from '../npm-start.ts';
import { atMost, type Bench, figure, type Row } from '../row.ts';
import { cpuOfTree } from '../work.ts';

/** The name of the figure. */
export const IDLE_STACK = 'returns, webhooks, Kafka and PostgreSQL';
const STACK_GOAL = 8;
const START_GOAL = 1.5;
/** Pause after a start, until consumer groups are formed and the first vacuums are done. Milliseconds. */
const PAUSE_MS = 30_000;
/** Long enough for jobs that run once a minute. */
const SECONDS = 60;
const QUICK = { pauseMs: 2_000, seconds: 4 };

/** CPU and memory of the idle system. */
export const idle: Row = {
  name: 'idle',
  about: `Returns, webhooks, Kafka and PostgreSQL without a request or an event, for ${SECONDS} s after ${PAUSE_MS / 1_000} s of rest; then npm start in the same way, all its processes.`,
  async run(bench) {
    return [...(await stack(bench)), await npmStart(bench)];
  },
};

async function stack({ platform, quick }: Bench): Promise<Figure[]> {
  await platform.run([]);
  await platform.run(['returns', 'webhooks']);
  const { pauseMs, seconds } = lengthsOf(quick);
  await sleep(pauseMs);
  const stop = await startMeter(platform, []);
  const began = performance.now();
  await sleep(seconds * 1_000);
  const work = await stop();
  const lasted = (performance.now() - began) / 1_000;
  const share = (cpu: number) => (cpu / lasted) * 100;
  const unit = ' % of a core';
  const kinds = [...work.byKind]
    .map(([name, cpu]) => [name, share(cpu)] as const)
    .filter(([, value]) => value >= 0.05)
    .sort(([, a], [, b]) => b - a)
    .map(([name, value]) => `${name} ${value.toFixed(1)}`);
  return [
    {
      ...atMost(STACK_GOAL, { name: IDLE_STACK, unit, value: share(work.total) }),
      parts: Object.fromEntries([...work.byProcess].map(([name, cpu]) => [name, share(cpu)])),
    },
    ...[...work.byProcess].map(([name, cpu]) =>
      figure({
        name: `of these ${name}`,
        unit,
        value: share(cpu),
        ...(name === 'postgres' && { more: kinds.join(', ') }),
      }),
    ),
  ];
}

async function npmStart({ platform, quick }: Bench): Promise<Figure> {
  await platform.run([]);
  const { pauseMs, seconds } = lengthsOf(quick);
  return withNpmStart(async ({ pid }) => {
    await sleep(pauseMs);
    const endSlice = platform.shares.begin();
    const [before, began] = [cpuOfTree(pid), performance.now()];
    await sleep(seconds * 1_000);
    const cpu = (cpuOfTree(pid) - before) / ((performance.now() - began) / 1_000);
    endSlice();
    return atMost(START_GOAL, { name: 'npm start', value: cpu * 100, unit: ' % of a core' });
  });
}

const lengthsOf = (quick: boolean) => (quick ? QUICK : { pauseMs: PAUSE_MS, seconds: SECONDS });
