import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startNode } from '../../kit/process.ts';
import type { Row } from '../row.ts';
import type { FromKiller, KilledProvider } from '../system/processing-killer.ts';

const KILLER = 'test/faults/system/processing-killer.ts';
const POINTS = { short: 40, full: 1_000 };
const REPORT_EVERY = 100;

/** Kills processing at each of its awaits, in a separate process with a separate database. One row per provider. */
export const processingRows: readonly Row[] = [
  processingRow('processing', 'embedded', ''),
  processingRow('processing-http', 'remembers', ', over HTTP and a bad network'),
  processingRow(
    'processing-http-forgets',
    'forgets',
    ', over HTTP and a bad network, at a provider that forgets keys',
  ),
  processingRow(
    'processing-shopify',
    'shopify-remembers',
    ', at a Shopify shop behind a bad network',
  ),
  processingRow(
    'processing-shopify-forgets',
    'shopify-forgets',
    ', at a Shopify shop that forgets keys, behind a bad network',
  ),
];

function processingRow(name: string, provider: KilledProvider, where: string): Row {
  return {
    name,
    fault: `processing killed at every await${where} (1,000 points in the full form)`,
    mustHold: 'each exchange order, gift card and refund exactly once',
    // It runs with a lower priority than the other rows.
    budgetMs: { short: 600_000, full: 5_400_000 },
    async runSeparately({ random, full, say }) {
      const points = POINTS[full ? 'full' : 'short'];
      const seed = random.between(1, 1_000_000);
      const report = await killInSeparateProcess({ points, seed, provider }, (done) => {
        if (done % REPORT_EVERY === 0) say(`${name}: ${done}/${points}`);
      });
      const doubts = report.kills < points ? [`only ${report.kills} deaths struck`] : [];
      const figures = [
        `${report.kills} deaths at ${report.points} of ${report.allPoints} points`,
        `${report.scenarios} kinds of outcome`,
      ];
      const none = { lost: 0, duplicates: 0, unexplained: 0, problems: [] };
      return { ...none, trials: report.trials, inFlight: report.kills, figures, doubts };
    },
  };
}

type Report = Extract<FromKiller, { kind: 'report' }>['report'];

async function killInSeparateProcess(
  o: { points: number; seed: number; provider: KilledProvider },
  onProgress: (done: number) => void,
): Promise<Report> {
  const folder = await mkdtemp(join(tmpdir(), 'rms-faults-processing-'));
  const args = [KILLER, folder, String(o.points), String(o.seed), o.provider];
  const killer = startNode({
    args,
    env: process.env,
    hasChannel: true,
    onParentExit: 'nothing',
  });
  const { child } = killer;
  try {
    return await new Promise((done, fail) => {
      child.on('message', (message: FromKiller) => {
        if (message.kind === 'progress') onProgress(message.done);
        else if (message.kind === 'report') done(message.report);
        else fail(new Error(message.reason));
      });
      child.once('exit', (code) => {
        fail(new Error(`its process ended with ${code}:\n${killer.output()}`));
      });
    });
  } finally {
    await killer.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
