import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../../../deploy/local/demo/percentiles.ts';
import type { Figure } from '../figure.ts';
import { withNpmStart } from '../npm-start.ts';
import { atMost, type Bench, type Row } from '../row.ts';
import { memoryOfTree } from '../work.ts';

const FIRST_SECONDS_GOAL = 5;
const SECONDS_GOAL = 3.5;
const MEMORY_GOAL_MB = 450;
/** Pause before memory is read, so that the work after the start is done. Milliseconds. */
const PAUSE_MS = 30_000;

interface Started {
  /** Of the first start, with an empty cache. */
  readonly firstSeconds: number;
  /** Of a later start on new data. */
  readonly seconds: number;
  readonly memory: number;
}

/** The whole local stack: time until its first response, and its memory. */
export const start: Row = {
  name: 'start',
  about:
    'npm start on fresh data, from the command to the first 200 of GET return details (the demo data are there then); memory (PSS) of all its processes, PostgreSQL included, half a minute later. What it takes while idle is in row idle.',
  async run({ quick, platform }) {
    await platform.run([]);
    const runs: Started[] = [];
    for (let at = 0; at < (quick ? 1 : 5); at += 1) {
      runs.push(await startTwice(platform, quick ? 1_000 : PAUSE_MS));
    }
    return figuresOf(runs);
  },
};

/** Starts the stack with an empty cache, and again with the cache that the first start made. */
async function startTwice({ shares }: Bench['platform'], pauseMs: number): Promise<Started> {
  const home = await mkdtemp(join(tmpdir(), 'rms-bench-home-'));
  try {
    const endFirst = shares.begin();
    const firstSeconds = await withNpmStart(async ({ seconds }) => {
      endFirst();
      return seconds;
    }, home);
    const endSlice = shares.begin();
    return await withNpmStart(async ({ pid, seconds }) => {
      endSlice();
      await sleep(pauseMs);
      return { firstSeconds, seconds, memory: memoryOfTree(pid) };
    }, home);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

function figuresOf(runs: readonly Started[]): Figure[] {
  const median = (of: (one: Started) => number) => percentile(runs.map(of), 0.5);
  const all = (of: (one: Started) => number, digits: number) =>
    runs.map((one) => of(one).toFixed(digits)).join(', ');
  return [
    atMost(FIRST_SECONDS_GOAL, {
      name: 'first start to the first 200',
      value: median((one) => one.firstSeconds),
      unit: ' s',
      more: all((one) => one.firstSeconds, 2),
    }),
    atMost(SECONDS_GOAL, {
      name: 'later start to the first 200',
      value: median((one) => one.seconds),
      unit: ' s',
      more: all((one) => one.seconds, 2),
    }),
    atMost(MEMORY_GOAL_MB, {
      name: 'idle memory',
      value: median((one) => one.memory),
      unit: ' MB',
      digits: 0,
      more: all((one) => one.memory, 0),
    }),
  ];
}
