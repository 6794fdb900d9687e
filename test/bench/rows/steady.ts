import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../../../deploy/local/demo/percentiles.ts';
import { startHooks } from '../ends/hooks.ts';
import type { Receivers } from '../ends/sink.ts';
import type { Figure } from '../figure.ts';
import { byProcessFigure, startMeter, type Work, withoutEnds } from '../measure.ts';
import { atMost, type Bench, figure, type Row } from '../row.ts';
import { mostExpensive, resetStatements, statementsSince } from '../statements.ts';

const SHOPS = 50;
const P50_MS = 30;
const P99_MS = 55;

/** Events at a fixed rate, far below the maximum, and their signed deliveries. */
function steady(perSecond: number): Row {
  return {
    name: `steady-${perSecond}`,
    about: `Open loop, ${perSecond} events a second, each in a transaction of its own, ${SHOPS} shops with an endpoint each. Latency from the scheduled time of the event to the arrival at the sink. The idle part is what the same processes took after it, without events.`,
    run: (bench) => run(bench, perSecond),
  };
}

export const steady50 = steady(50);
export const steady200 = steady(200);

async function run(bench: Bench, perSecond: number): Promise<Figure[]> {
  const { latencies, work, count } = await measureFlow(bench, { perSecond });
  const idle = await idleShare(bench);
  return [...latencyFigures(latencies), ...cpuFigures(work, { count, idle, perSecond })];
}

export interface Flow {
  readonly perSecond: number;
  readonly receivers?: Receivers;
}

export interface FlowResult {
  /** Times from the scheduled time of each event. Milliseconds. */
  readonly latencies: readonly number[];
  readonly work: Work;
  readonly count: number;
}

/** Measures events at a fixed rate for a minute, after a warm-up of a quarter of a minute. */
export async function measureFlow(bench: Bench, o: Flow): Promise<FlowResult> {
  const { platform } = bench;
  await platform.run(['returns', 'webhooks']);
  const shops = bench.newShops(SHOPS);
  const hooks = await startHooks(bench, shops, o.receivers && { receivers: o.receivers });
  try {
    const flow = async (seconds: number) => {
      const count = o.perSecond * seconds;
      return hooks.publisher.call('flow', { shops, perSecond: o.perSecond, count });
    };
    const warm = await flow(bench.quick ? 3 : 15);
    await hooks.untilReceived(warm.size);
    await hooks.sink.call('keepTimes', 'event');
    await resetStatements(platform.admin);
    const stop = await startMeter(platform, hooks.both);
    const scheduled = await flow(bench.quick ? 8 : 60);
    await hooks.untilReceived(warm.size + scheduled.size);
    const work = await stop();
    for (const line of mostExpensive(await statementsSince(platform.admin))) bench.note(line);
    const { times } = await hooks.arrivals();
    const latencies = [...scheduled].map(([id, due]) => (times.get(id) ?? Number.NaN) - due);
    return { latencies, work, count: scheduled.size };
  } finally {
    await hooks.stop();
  }
}

function latencyFigures(latencies: readonly number[]): Figure[] {
  const ms = (share: number) => ({ value: percentile(latencies, share), unit: ' ms', digits: 1 });
  return [
    atMost(P50_MS, { name: 'event → received, p50', ...ms(0.5) }),
    atMost(P99_MS, { name: 'event → received, p99', ...ms(0.99) }),
    figure({ name: 'event → received, longest', ...ms(1) }),
  ];
}

function cpuFigures(
  work: Work,
  o: { readonly count: number; readonly idle: number; readonly perSecond: number },
): Figure[] {
  const perThousand = (cpu: number) => (cpu / o.count) * 1_000;
  return [
    figure({ name: 'CPU-s per 1,000, all processes', value: perThousand(work.total) }),
    figure({
      name: 'CPU-s per 1,000, without sink and publisher',
      value: perThousand(withoutEnds(work)),
    }),
    figure({
      name: 'CPU-s per 1,000, of these the idle part',
      value: (o.idle / o.perSecond) * 1_000,
      more: `${(o.idle * 100).toFixed(1)} % of a core`,
    }),
    byProcessFigure(work, o.count),
  ];
}

/** Number of cores that services, Kafka and PostgreSQL use while idle. */
async function idleShare({ platform, quick }: Bench): Promise<number> {
  const seconds = quick ? 2 : 20;
  await sleep(quick ? 1_000 : 5_000);
  const stop = await startMeter(platform, []);
  await sleep(seconds * 1_000);
  return (await stop()).total / seconds;
}
