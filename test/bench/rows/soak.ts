import { PROCESS_NAMES } from '../../../services/platform/services.ts';
import { until } from '../../kit/until.ts';
import { startWorker } from '../child.ts';
import { startHooks } from '../ends/hooks.ts';
import type { Figure } from '../figure.ts';
import type { HttpLoadMethods } from '../http-load.ts';
import type { Load } from '../load.ts';
import type { Platform } from '../platform.ts';
import { atMost, type Bench, figure, type Row } from '../row.ts';
import { makeReturns, makeShop } from '../shop.ts';
import { slopeOf } from '../stats.ts';
import { memoryOfTree, residentOf } from '../work.ts';

const SHOPS = 50;
const EVENTS_PER_SECOND = 50;
/** Process calls per second. Each is followed by reads. */
const CALLS_PER_SECOND = 1;
const READS_PER_CALL = 4;
/** The first quarter of the samples is left out, because caches fill and code is compiled. */
const WARM_SHARE = 0.25;
const SAMPLES = 120;
/** Goal of the memory growth. MB per minute. */
const SLOPE_GOAL = 1;

/** Constant load for a long time. Measures memory growth, and lost and repeated webhooks. */
export function soak(minutes: number): Row {
  return {
    name: 'soak',
    about: `${minutes} minutes with all seven processes: ${EVENTS_PER_SECOND} events a second for ${SHOPS} shops, and over REST ${CALLS_PER_SECOND} process call and ${READS_PER_CALL} reads a second. Memory: RSS of each process, line of least squares without the first quarter.`,
    run: (bench) => run(bench, minutes),
  };
}

async function run(bench: Bench, minutes: number): Promise<Figure[]> {
  const { platform } = bench;
  const seconds = minutes * 60;
  await platform.run(PROCESS_NAMES);
  const shop = await makeShop(platform);
  const count = Math.round(seconds * CALLS_PER_SECOND);
  const made = await makeReturns(platform, shop, { count, lines: 2 });
  const shops = bench.newShops(SHOPS);
  const hooks = await startHooks(bench, [...shops, shop.id]);
  const load = startWorker<HttpLoadMethods>({ name: 'load', args: ['test/bench/http-load.ts'] });
  const memory = sampleMemory(platform, (seconds * 1_000) / SAMPLES);
  try {
    const ids = made.map(({ id }) => id);
    const calls = load.call('schedule', {
      ...callsOf(ids, platform.gatewayUrl),
      headers: shop.headers,
      perSecond: CALLS_PER_SECOND * (1 + READS_PER_CALL),
    });
    const events = EVENTS_PER_SECOND * seconds;
    const flow = hooks.publisher.call('flow', {
      shops,
      perSecond: EVENTS_PER_SECOND,
      count: events,
    });
    const [{ failed }] = await Promise.all([calls, flow]);
    const samples = memory.stop();
    for (const [name, all] of samples) bench.note(`${name}, MB: ${seriesOf(all)}`);
    const expected = events + (await untilProcessed(platform, shop.id));
    // Missing deliveries are a figure of the row, not a failure.
    await hooks.untilReceived(expected).catch((error: unknown) => bench.note(String(error)));
    const { received, repeated, invalid, verified } = await hooks.arrivals();
    const exactly = (name: string, value: number) => atMost(0, { name, value, digits: 0 });
    return [
      exactly('failed requests', failed),
      exactly('lost webhooks', expected - (received - repeated)),
      exactly('repeated webhooks', repeated),
      exactly(`invalid signatures, of ${verified + invalid} verified`, invalid),
      ...memoryFigures(samples),
    ];
  } finally {
    memory.stop();
    await Promise.all([load.stop(), hooks.stop()]);
  }
}

/** Waits until no return is being processed. Returns how many were closed: a failed call may have closed its return. */
async function untilProcessed({ admin }: Platform, shopId: bigint): Promise<number> {
  const closed = `select count(*) filter (where state = 'closed')::integer as closed, bool_or(processing) as busy
    from returns.returns where shop_id = $1`;
  const last = await until(async () => {
    const { rows } = await admin.query<{ closed: number; busy: boolean }>(closed, [shopId]);
    return rows[0]?.busy === false && rows[0];
  }, 120_000);
  return last.closed;
}

/** Every tenth of the samples. */
function seriesOf(all: Samples): string {
  const step = Math.max(1, Math.floor(all.length / 10));
  const some = all.filter((_, at) => at % step === 0);
  return some.map(([minute, mb]) => `${mb.toFixed(0)} (${minute.toFixed(0)} min)`).join(', ');
}

/** Samples of one process: minutes since the start, and MB. */
type Samples = [number, number][];

function sampleMemory(platform: Platform, everyMs: number) {
  const started = performance.now();
  const samples = new Map<string, Samples>();
  const add = (name: string, megabytes: number): void => {
    const list = samples.get(name) ?? [];
    samples.set(name, list);
    list.push([(performance.now() - started) / 60_000, megabytes]);
  };
  const timer = setInterval(() => {
    for (const { name, pid } of platform.processes()) add(name, residentOf(pid));
    add('kafka', memoryOfTree(platform.kafkaPid));
    add('postgres', memoryOfTree(platform.postgresPid));
  }, everyMs);
  return {
    stop: (): ReadonlyMap<string, Samples> => {
      clearInterval(timer);
      return samples;
    },
  };
}

/** Kafka and PostgreSQL have no goal, because their buffers of fixed size fill for hours. */
function memoryFigures(samples: ReadonlyMap<string, Samples>): Figure[] {
  return [...samples].map(([name, all]) => {
    const counted = all.slice(Math.floor(all.length * WARM_SHARE));
    const [first, last] = [all.at(0)?.[1] ?? 0, all.at(-1)?.[1] ?? 0];
    const o = {
      name: `memory of ${name}, growth`,
      value: slopeOf(counted),
      unit: ' MB a minute',
      more: `${first.toFixed(0)} to ${last.toFixed(0)} MB`,
    };
    return name === 'kafka' || name === 'postgres' ? figure(o) : atMost(SLOPE_GOAL, o);
  });
}

/** Each return is processed once and read four times. */
function callsOf(ids: readonly bigint[], origin: string): Omit<Load, 'headers'> {
  const read = (id: bigint) => ({
    method: 'GET' as const,
    path: `/api/2026-10/warehouse/return/details?return_id=${id}`,
  });
  const requests = ids.flatMap((id) => [
    { method: 'POST' as const, path: `/api/2026-10/warehouse/return/${id}/process` },
    ...Array.from({ length: READS_PER_CALL }, () => read(id)),
  ]);
  return { origin, lists: [requests] };
}
