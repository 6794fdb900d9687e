import { setTimeout as sleep } from 'node:timers/promises';
import { type Hooks, startHooks } from '../hooks.ts';
import { perThousand, residentText, startMeter, together, type Work } from '../measure.ts';
import { atLeast, atMost, type Bench, type Figure, figure, type Row } from '../row.ts';
import { costliest, resetStatements, statementsSince, sumsOf } from '../statements.ts';
import { spreadOf } from '../stats.ts';

/** Shops with one endpoint each. */
const SHOPS = 50;
/** Events on their way at most. */
const WINDOW = 2_000;
const LOAD = { window: WINDOW, batch: 20, lanes: 2 };

interface Slice {
  readonly deliveries: number;
  readonly seconds: number;
  readonly work: Work;
}

/** Events to signed deliveries, as many as go. */
export const throughput: Row = {
  name: 'throughput',
  about: `Closed loop, ${WINDOW} events on their way, 20 to a transaction, ${SHOPS} shops with an endpoint each: outbox of returns → relay → Kafka → consumer → fan-out → delivery → sink. CPU: all processes, publisher and sink too.`,
  async run(bench) {
    await bench.platform.run(['returns', 'webhooks']);
    const shops = bench.newShops(SHOPS);
    const hooks = await startHooks(bench, shops);
    try {
      return await measure(bench, hooks, shops);
    } finally {
      await hooks.stop();
    }
  },
};

async function measure(bench: Bench, hooks: Hooks, shops: bigint[]): Promise<Figure[]> {
  const { platform } = bench;
  await hooks.publisher.call('saturate', { shops, ...LOAD });
  await sleep(bench.quick ? 4_000 : 20_000);
  await resetStatements(platform.admin);
  const slices: Slice[] = [];
  await bench.watch([...platform.processes(), ...hooks.both], async () => {
    for (let at = 0; at < (bench.quick ? 3 : 12); at += 1) {
      slices.push(await slice(bench, hooks, bench.quick ? 3 : 5));
    }
  });
  const statements = await statementsSince(platform.admin);
  const memory = residentText([...platform.processes(), ...hooks.both]);
  await hooks.untilReceived(await hooks.publisher.call('stop', undefined));
  for (const line of costliest(statements, 12)) bench.note(line);
  const arrivals = await hooks.arrivals();
  if (arrivals.invalid > 0) throw new Error(`${arrivals.invalid} signatures did not hold`);

  const work = together(slices.map((one) => one.work));
  const deliveries = slices.reduce((sum, one) => sum + one.deliveries, 0);
  const rate = spreadOf(slices.map((one) => one.deliveries / one.seconds));
  const cpu = spreadOf(slices.map((one) => (one.work.total / one.deliveries) * 1_000));
  const sums = sumsOf(statements);
  const between = (low: number, high: number, digits: number) =>
    `${low.toFixed(digits)} to ${high.toFixed(digits)}`;
  return [
    atLeast(2_000, {
      name: 'deliveries a second',
      value: rate.median,
      digits: 0,
      more: between(rate.low, rate.high, 0),
    }),
    atMost(0.6, {
      name: 'CPU-s per 1,000, all processes',
      value: cpu.median,
      more: between(cpu.low, cpu.high, 2),
    }),
    { name: 'CPU-s per 1,000, by process', value: perThousand(work, deliveries) },
    figure({ name: 'statements a delivery', value: sums.calls / deliveries }),
    figure({ name: 'pages a delivery', value: sums.buffers / deliveries, digits: 0 }),
    figure({ name: 'WAL a delivery, bytes', value: sums.walBytes / deliveries, digits: 0 }),
    { name: 'RSS, MB', value: memory },
    {
      name: 'sink',
      value: `${arrivals.received} received, ${arrivals.repeated} repeated, ${arrivals.verified} verified, ${arrivals.connections} connections`,
    },
  ];
}

async function slice({ platform }: Bench, hooks: Hooks, seconds: number): Promise<Slice> {
  const before = (await hooks.arrivals()).received;
  const started = performance.now();
  const stop = await startMeter(platform, hooks.both);
  await sleep(seconds * 1_000);
  const work = await stop();
  const deliveries = (await hooks.arrivals()).received - before;
  return { deliveries, seconds: (performance.now() - started) / 1_000, work };
}
