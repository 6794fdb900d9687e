import { setTimeout as sleep } from 'node:timers/promises';
import type { Due } from '../ledger/balance.ts';
import { comparedWait, percentile, type Row, type RowContext, type RowResult } from '../row.ts';
import { nowMs } from '../wait.ts';
import { sampled } from './sampling.ts';
import { type Trial, withTrial } from './trial.ts';

/** In a calm slice all endpoints are healthy. In a hanging slice some never respond. */
type Slice = 'calm' | 'hanging';

interface Setting {
  readonly name: string;
  readonly fault: string;
  readonly shops: number;
  readonly endpointsPerShop: number;
  /** Share of all endpoints. */
  readonly hanging: number;
  /** Returns per second, over all shops. Fewer if the machine is too slow. */
  readonly perSecond: { readonly short: number; readonly full: number };
}

const SETTINGS: readonly Setting[] = [
  {
    name: 'hang-1',
    fault: '1 of 100 endpoints hangs',
    shops: 4,
    endpointsPerShop: 25,
    hanging: 1,
    perSecond: { short: 4, full: 6 },
  },
  {
    name: 'hang-50',
    fault: '50 of 100 endpoints hang',
    shops: 4,
    endpointsPerShop: 25,
    hanging: 50,
    perSecond: { short: 4, full: 6 },
  },
  {
    name: 'hang-fifth',
    fault: 'one endpoint that hangs gets 20 % of the traffic',
    shops: 1,
    endpointsPerShop: 5,
    hanging: 1,
    perSecond: { short: 20, full: 30 },
  },
];

/** Alternating, so that a slow moment of the machine affects both kinds of slices. */
const ORDER: readonly Slice[] = ['calm', 'hanging', 'hanging', 'calm'];
const SLICE_MS = { short: 1_200, full: 20_000 };
const WARM_UP_MS = 1_000;
/**
 * Deliveries that arrive this long after their slice still belong to it. On a slow machine it is three times the calm
 * median. Milliseconds.
 */
const LATE_MS = 800;
const LATE_MEDIANS = 3;
/** If half of a calm slice takes longer, the machine has no capacity for the measurement. Milliseconds. */
const FREE_MS = 200;
const SLOWER = 0.5;
const MAX_SLOWER = 2;
const QUIET_MS = 150_000;
/** Shorter waits count as this long in a ratio, because they are noise. Milliseconds. */
const MIN_WAIT_MS = 50;

export const hangingRows: readonly Row[] = SETTINGS.map((setting) => ({
  name: setting.name,
  fault: setting.fault,
  mustHold: 'lost 0; p99 of the others (median in the short form) ≤ 2×; healthy throughput ≥ 0.8×',
  budgetMs: { short: 300_000, full: 900_000 },
  run: (context) =>
    withTrial(
      context,
      { subscriptions: { 'return.created': setting.endpointsPerShop }, shops: setting.shops },
      (trial) => compare(context, trial, setting),
    ),
}));

interface Arm {
  /** A percentile of each slice, see {@link comparedWait}. Milliseconds. */
  readonly waits: number[];
  due: number;
  inTime: number;
}

async function compare(context: RowContext, trial: Trial, setting: Setting): Promise<RowResult> {
  const { system, full } = context;
  const form = full ? 'full' : 'short';
  const { share, name } = comparedWait(full);
  const hanging = everyNth([...trial.paths], setting.hanging);
  const arms: Record<Slice, Arm> = { calm: arm(), hanging: arm() };
  let inFlight = 0;
  const { perSecond, lateMs } = await paceOf(trial, setting.perSecond[form]);
  const measure = async (slice: Slice): Promise<void> => {
    if (slice === 'hanging') system.sink.behave([...hanging], { kind: 'hang' });
    await system.sink.flush();
    // The system needs a moment to notice the hanging endpoints. Then the measurement starts.
    await publishFor(trial, perSecond, WARM_UP_MS);
    const from = nowMs();
    // The same number of returns in each slice, even if they take longer.
    await publishFor(trial, perSecond, SLICE_MS[form] * (setting.perSecond[form] / perSecond));
    const to = nowMs();
    await sleep(lateMs);
    await trial.ledger.refresh();
    inFlight += system.sink.arrivals.open().filter(({ path }) => hanging.has(path)).length;
    const healthy = trial.ledger
      .all()
      .filter((one) => isIn(one, from, to) && !hanging.has(one.path));
    count(arms[slice], healthy, { until: to + lateMs, share });
    system.sink.behave([...hanging], { kind: 'accept' });
    await trial.ledger.untilQuiet(QUIET_MS);
  };
  const rounds = await sampled(trial, {
    async round() {
      for (const slice of ORDER) await measure(slice);
    },
    // A short slice without a return for the hanging endpoint proves nothing.
    misses: () => [...compared(arms, name).misses, ...(inFlight === 0 ? ['nothing hung'] : [])],
  });
  const slices = rounds * ORDER.length;
  return trial.finish({
    trials: slices,
    inFlight,
    quietMs: QUIET_MS,
    figures: [...compared(arms, name).figures, `${slices} slices at ${perSecond}/s`],
  });
}

/** The number of returns per second that the machine can process, and the maximum delivery time at this rate. */
async function paceOf(
  trial: Trial,
  count: number,
): Promise<{ readonly perSecond: number; readonly lateMs: number }> {
  // Opens connections and fills caches before the measurement.
  await publishFor(trial, count, SLICE_MS.short);
  await trial.ledger.untilQuiet(QUIET_MS);
  let perSecond = count;
  for (let slower = 0; ; slower += 1) {
    const from = nowMs();
    await publishFor(trial, perSecond, SLICE_MS.short);
    await trial.ledger.untilQuiet(QUIET_MS);
    const waits = trial.ledger
      .all()
      .filter(({ at }) => at >= from)
      .map(({ at, deliveredAt }) => (deliveredAt ?? Infinity) - at);
    const median = percentile(waits, 0.5);
    if (median > FREE_MS && slower < MAX_SLOWER) perSecond *= SLOWER;
    else return { perSecond, lateMs: Math.max(LATE_MS, LATE_MEDIANS * (median || 0)) };
  }
}

/** Compares all slices so far. */
function compared(
  { calm, hanging }: Record<Slice, Arm>,
  name: string,
): { readonly misses: string[]; readonly figures: string[] } {
  // Other load on the machine only adds time, so the faster slices are compared.
  const waits = { calm: percentile(calm.waits, 0.25), hanging: percentile(hanging.waits, 0.25) };
  const wait = Math.max(MIN_WAIT_MS, waits.hanging) / Math.max(MIN_WAIT_MS, waits.calm);
  const throughput = hanging.inTime / hanging.due / (calm.inTime / calm.due);
  const misses: string[] = [];
  if (!(wait <= 2)) misses.push(`${name} of the others × ${wait.toFixed(2)}`);
  if (!(throughput >= 0.8)) misses.push(`healthy throughput × ${throughput.toFixed(2)}`);
  const figures = [
    `${name} of the others × ${wait.toFixed(2)} (${waits.calm.toFixed(0)} → ${waits.hanging.toFixed(0)} ms)`,
    `healthy throughput × ${throughput.toFixed(2)}`,
  ];
  return { misses, figures };
}

/** @param all returns per second, over all shops. */
async function publishFor(trial: Trial, all: number, ms: number): Promise<void> {
  const mix = { submit: 1, label: 0, process: 0 };
  const perSecond = all / trial.shops.length;
  const publishers = trial.shops.map((shop) => trial.publish({ shop, perSecond, mix }));
  await sleep(ms);
  await Promise.all(publishers.map((one) => one.stop()));
}

const arm = (): Arm => ({ waits: [], due: 0, inTime: 0 });
const isIn = ({ at }: Due, from: number, to: number): boolean => at >= from && at <= to;

function count(
  into: Arm,
  dues: readonly Due[],
  { until, share }: { until: number; share: number },
): void {
  into.due += dues.length;
  into.inTime += dues.filter(({ deliveredAt }) => (deliveredAt ?? Infinity) <= until).length;
  // At a low rate a short slice may be empty. Then it is skipped.
  if (dues.length === 0) return;
  const waits = dues.map(({ at, deliveredAt }) => (deliveredAt ?? until) - at);
  into.waits.push(percentile(waits, share));
}

/** `count` of the paths, evenly spread. */
function everyNth(paths: readonly string[], count: number): ReadonlySet<string> {
  const step = paths.length / count;
  return new Set(Array.from({ length: count }, (_, at) => paths[Math.floor(at * step)] ?? ''));
}
