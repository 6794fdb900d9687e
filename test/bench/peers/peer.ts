import { z } from 'zod';
import { runNode } from '../../kit/process.ts';
import type { Figure } from '../figure.ts';
import { atLeast, atMost, type Bench } from '../row.ts';

/** Time limit of building and measuring Outpost. Milliseconds. */
const TIMEOUT_MS = 30 * 60_000;
/** Exit status of the script when Outpost cannot be run. */
export const UNAVAILABLE = 3;

/** The script prints this as JSON on its last line. */
const peerResult = z.object({
  version: z.string(),
  /** Deliveries per second. */
  perSecond: z.number(),
  /** CPU-s per 1,000 deliveries, of all processes. */
  cpu: z.number(),
  /** The same without sink and publisher. */
  product: z.number(),
  /** Milliseconds from the scheduled time of the event to its arrival. Absent in the burst. */
  p50: z.number().optional(),
  p99: z.number().optional(),
});
export type PeerResult = z.infer<typeof peerResult>;

/** Goals relative to Outpost: minimum ratio of the rate, maximum ratio of the CPU. */
export interface PeerGoals {
  readonly perSecond?: number;
  readonly cpu: number;
}

export interface PeerComparison {
  readonly goals: PeerGoals;
  readonly ours: Pick<PeerResult, 'perSecond' | 'cpu' | 'product'>;
  /** Events per second in an open loop. Absent for the burst. */
  readonly rate?: number;
}

/**
 * Measures Outpost under the load of a row, after the row itself, and compares both. The services are stopped for it.
 * When Outpost cannot be run, the figures contain the reason.
 */
export async function peerFigures(bench: Bench, o: PeerComparison): Promise<Figure[]> {
  if (!bench.peer) return [];
  const command = commandOf(o.rate, bench.quick);
  await bench.platform.run([]);
  bench.note(`Outpost: ${command.join(' ')}`);
  const found = await runPeer(bench, command);
  return 'reason' in found ? absentFigures(o, found.reason, command) : ratios(o, found, command);
}

/** The command that repeats the measurement of Outpost. */
export function commandOf(rate: number | undefined, isQuick: boolean): string[] {
  const load = rate === undefined ? ['--burst'] : ['--per-second', String(rate)];
  return ['node', 'test/bench/peers/outpost.ts', ...load, ...(isQuick ? ['--quick'] : [])];
}

async function runPeer(
  { platform }: Bench,
  [, ...args]: readonly string[],
): Promise<PeerResult | { readonly reason: string }> {
  const endSlice = platform.shares.begin();
  const { stdout, stderr, code } = await runNode({
    args,
    env: process.env,
    timeoutMs: TIMEOUT_MS,
    onParentExit: 'SIGTERM',
  });
  if (code === UNAVAILABLE) return { reason: stderr.trim() };
  if (code !== 0) throw new Error(`the script for Outpost failed: ${stderr.trim()}`);
  // Counted only now: when Outpost cannot be run, there is no figure that background load could falsify.
  endSlice();
  return peerResult.parse(JSON.parse(stdout.trim().split('\n').at(-1) ?? ''));
}

/** The ratios to the measured figures of Outpost. */
export function ratios(
  { goals, ours }: PeerComparison,
  theirs: PeerResult,
  command: readonly string[],
): Figure[] {
  const beside = (of: 'perSecond' | 'cpu' | 'product', digits: number) => ({
    value: ours[of] / theirs[of],
    more: `${ours[of].toFixed(digits)} and ${theirs[of].toFixed(digits)}`,
  });
  const product = ours.product / theirs.product;
  const cpu = beside('cpu', 2);
  const figures = [
    atMost(goals.cpu, {
      name: 'CPU-s per 1,000, to Outpost',
      value: cpu.value,
      more: `${cpu.more}; without sink and publisher ${product.toFixed(2)}: ${beside('product', 2).more}`,
    }),
    { name: 'Outpost', value: [latencyText(theirs), sourceText(theirs, command)].join('') },
  ];
  if (goals.perSecond === undefined) return figures;
  const rate = { name: 'deliveries a second, to Outpost', ...beside('perSecond', 0) };
  return [atLeast(goals.perSecond, rate), ...figures];
}

/** Figures without a value. They show the goals and the reason. */
export function absentFigures(
  { goals }: PeerComparison,
  reason: string,
  command: readonly string[],
): Figure[] {
  const value = 'Outpost could not be installed';
  const rate = goals.perSecond;
  return [
    ...(rate === undefined
      ? []
      : [{ name: 'deliveries a second, to Outpost', value, goal: `≥ ${rate.toFixed(2)}` }]),
    { name: 'CPU-s per 1,000, to Outpost', value, goal: `≤ ${goals.cpu.toFixed(2)}` },
    {
      name: 'Outpost',
      value: `${value}: ${shortened(reason)} (\`${command.join(' ')}\`)`,
    },
  ];
}

/** The reason in one line, without the address of the registry, because it belongs to this machine. */
function shortened(reason: string): string {
  return reason.replaceAll(/https?:\/\/\S+/g, 'the registry').replaceAll(/\s+/g, ' ');
}

function latencyText({ p50, p99 }: PeerResult): string {
  if (p50 === undefined || p99 === undefined) return '';
  return `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms; `;
}

function sourceText({ version }: PeerResult, command: readonly string[]): string {
  return `${version}, \`${command.join(' ')}\``;
}
