import { setTimeout as sleep } from 'node:timers/promises';
import { type HookOptions, type Hooks, startHooks } from '../ends/hooks.ts';
import type { Figure } from '../figure.ts';
import {
  byProcessFigure,
  residentText,
  startMeter,
  together,
  type Work,
  withoutEnds,
} from '../measure.ts';
import type { Platform } from '../platform.ts';
import { atLeast, atMost, type Bench, figure, type Row } from '../row.ts';
import { mostExpensive, resetStatements, statementsSince, sumsOf } from '../statements.ts';
import { type Spread, spreadOf } from '../stats.ts';
import { storedBytes, storedFigure } from '../stored.ts';

const SHOPS = 50;
/** Maximum number of events in flight. */
const WINDOW = 2_000;
/** The ordinary case: a change of a return is one event in one transaction. A dozen callers make changes at a time. */
const SINGLE = { window: WINDOW, batch: 1, writers: 12 };
/** Changes of many returns at a time, such as an inspection of thirty. */
const BATCH = { window: WINDOW, batch: 20, writers: 2 };
const PATH =
  'outbox of returns → relay → Kafka → consumer → fan-out → delivery → sink. CPU: all processes, publisher and sink too';
/** Goals of the burst. */
const GOALS = { perSecond: 2_000, cpu: 0.8 };
const SUBSCRIPTIONS = 3;
/** The name of the figure. */
export const DELIVERY_RATE = 'deliveries a second';

interface Slice {
  readonly deliveries: number;
  readonly seconds: number;
  readonly work: Work;
}

interface Kind {
  readonly name: string;
  readonly receivers: string;
  /** How events come; {@link BATCH} by default. */
  readonly load?: typeof BATCH;
  /** Whether this row has goals. */
  readonly isBurst?: boolean;
  hooks(platform: Platform): HookOptions;
}

/** The maximum rate from events to signed deliveries. */
function rowOf(kind: Kind): Row {
  return {
    name: kind.name,
    about: `Closed loop, ${WINDOW} events on their way, ${kind.load?.batch ?? BATCH.batch} to a transaction, ${SHOPS} shops with ${kind.receivers}: ${PATH}.`,
    async run(bench) {
      await bench.platform.run(['returns', 'webhooks']);
      const shops = bench.newShops(SHOPS);
      const options = kind.hooks(bench.platform);
      const hooks = await startHooks(bench, shops, options);
      try {
        return await measure(bench, kind, { hooks, shops, perShop: options.perShop ?? 1 });
      } finally {
        await hooks.stop();
      }
    },
  };
}

/** The headline. */
export const throughput = rowOf({
  name: 'throughput',
  receivers: 'an endpoint each',
  load: SINGLE,
  hooks: () => ({}),
});

export const throughputBatch = rowOf({
  name: 'throughput-batch',
  receivers: 'an endpoint each',
  isBurst: true,
  hooks: () => ({}),
});

export const slowReceivers = rowOf({
  name: 'slow-receivers',
  receivers: 'an endpoint each, which answers after 100 to 300 ms',
  hooks: () => ({ receivers: { answerMs: [100, 300] } }),
});

export const tlsReceivers = rowOf({
  name: 'tls-receivers',
  receivers: 'an endpoint each, over TLS',
  hooks: ({ certificate }) => ({ receivers: { certificate } }),
});

export const fanOut = rowOf({
  name: `fan-out-${SUBSCRIPTIONS}`,
  receivers: `${SUBSCRIPTIONS} endpoints each, so that an event has ${SUBSCRIPTIONS} deliveries`,
  hooks: () => ({ perShop: SUBSCRIPTIONS }),
});

interface Run {
  readonly hooks: Hooks;
  readonly shops: readonly bigint[];
  readonly perShop: number;
}

async function measure(bench: Bench, kind: Kind, run: Run): Promise<Figure[]> {
  const { platform } = bench;
  const { hooks, shops } = run;
  const before = await storedBytes(platform);
  await hooks.publisher.call('saturate', { shops, ...(kind.load ?? BATCH) });
  await sleep(bench.quick ? 4_000 : 20_000);
  await resetStatements(platform.admin);
  const slices: Slice[] = [];
  for (let at = 0; at < (bench.quick ? 3 : 12); at += 1) {
    slices.push(await slice(bench, hooks, bench.quick ? 3 : 5));
  }
  const statements = await statementsSince(platform.admin);
  const memory = residentText([...platform.processes(), ...hooks.both]);
  const events = await hooks.publisher.call('stop', undefined);
  await hooks.untilReceived(run.perShop * events);
  const after = await storedBytes(platform);
  for (const line of mostExpensive(statements)) bench.note(line);
  const { received, repeated, verified, invalid, connections } = await hooks.arrivals();
  if (invalid > 0) throw new Error(`${invalid} signatures were invalid`);

  const deliveries = slices.reduce((sum, one) => sum + one.deliveries, 0);
  const sums = sumsOf(statements);
  return [
    ...mainFigures(kind, slices),
    byProcessFigure(together(slices.map(({ work }) => work)), deliveries),
    figure({ name: 'statements a delivery', value: sums.calls / deliveries }),
    figure({ name: 'pages a delivery', value: sums.buffers / deliveries, digits: 0 }),
    figure({ name: 'WAL a delivery, bytes', value: sums.walBytes / deliveries, digits: 0 }),
    storedFigure('delivery', after.webhooks - before.webhooks, run.perShop * events),
    storedFigure('event', after.events - before.events, events),
    storedFigure('record', after.kafka - before.kafka, events),
    { name: 'RSS, MB', value: memory },
    {
      name: 'sink',
      value: `${received} received, ${repeated} repeated, ${verified} verified, ${connections} connections`,
    },
  ];
}

/** Rate and both CPU totals. The burst also has goals. */
function mainFigures({ isBurst }: Kind, slices: readonly Slice[]): Figure[] {
  const rate = spreadOf(slices.map((one) => one.deliveries / one.seconds));
  const perDelivery = (of: (work: Work) => number) =>
    spreadOf(slices.map(({ work, deliveries }) => (of(work) / deliveries) * 1_000));
  const [all, product] = [perDelivery(({ total }) => total), perDelivery(withoutEnds)];
  const perSecond = { name: DELIVERY_RATE, ...spreadFigure(rate, 0) };
  const cpu = { name: 'CPU-s per 1,000, all processes', ...spreadFigure(all, 2) };
  const figures = isBurst
    ? [atLeast(GOALS.perSecond, perSecond), atMost(GOALS.cpu, cpu)]
    : [figure(perSecond), figure(cpu)];
  return [
    ...figures,
    figure({ name: 'CPU-s per 1,000, without sink and publisher', ...spreadFigure(product, 2) }),
  ];
}

function spreadFigure({ median, low, high }: Spread, digits: number) {
  return { value: median, digits, more: `${low.toFixed(digits)} to ${high.toFixed(digits)}` };
}

async function slice({ platform }: Bench, hooks: Hooks, seconds: number): Promise<Slice> {
  const before = (await hooks.arrivals()).received;
  const started = performance.now();
  const stop = await startMeter(platform, hooks.both);
  await sleep(seconds * 1_000);
  const work = await stop();
  const deliveries = (await hooks.arrivals()).received - before;
  if (deliveries === 0) throw new Error(`nothing arrived in a slice of ${seconds} s`);
  return { deliveries, seconds: (performance.now() - started) / 1_000, work };
}
