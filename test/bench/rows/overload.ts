import { startWorker, type Worker } from '../child.ts';
import type { Figure } from '../figure.ts';
import type { HttpLoadMethods } from '../http-load.ts';
import type { Load } from '../load.ts';
import { atLeast, atMost, type Bench, figure, type Row } from '../row.ts';
import { makeReturns, makeShop } from '../shop.ts';

const TIMES = 3;
/** Number of connections for measuring capacity. Reads use the gateway's limit, writes their own lower limit. */
const READERS = 64;
const WRITERS = 16;
const SECONDS = 20;
const QUICK_SECONDS = 4;
/** Time for opening connections and compiling code. */
const WARM_UP_SECONDS = 5;
/** Maximum time of the load at half of capacity. */
const RECOVERY_S = 10;

interface Case {
  readonly name: string;
  readonly load: Load;
  readonly connections: number;
  readonly isRetrying: boolean;
}

/** The throughput at three times the maximum load of the system. */
export const overload: Row = {
  name: 'overload',
  about: `Capacity in a closed loop (${READERS} connections that read, ${WRITERS} that write), then ${TIMES} times as much in an open loop, counted after ${WARM_UP_SECONDS} s: of reads, of writes, and of reads whose clients send again after Retry-After, repetitions included; then half of capacity until it is answered as before. Load on the same machine.`,
  async run(bench) {
    const { platform } = bench;
    await platform.run(['gateway', 'returns', 'dispositions', 'webhooks']);
    const shop = await makeShop(platform);
    const made = await makeReturns(platform, shop, { count: READERS, lines: 3 });
    await platform.run(['gateway', 'returns', 'dispositions']);
    const common = { origin: platform.gatewayUrl, headers: shop.headers };
    const reads: Load = {
      ...common,
      lists: made.map(({ id }) => [
        { method: 'GET', path: `/api/2026-10/warehouse/return/details?return_id=${id}` },
      ]),
    };
    const writes: Load = {
      ...common,
      lists: made.slice(0, WRITERS).map(({ lineItems }) => [
        {
          method: 'POST',
          path: '/api/2026-10/dispositioning/assess',
          body: JSON.stringify({
            items: lineItems.map((line) => ({ line_item_id: Number(line.lineItemId) })),
          }),
        },
      ]),
    };
    const load = startWorker<HttpLoadMethods>({ name: 'load', args: ['test/bench/http-load.ts'] });
    try {
      const figures: Figure[] = [];
      for (const one of [
        { name: 'reads', load: reads, connections: READERS, isRetrying: false },
        { name: 'writes', load: writes, connections: WRITERS, isRetrying: false },
        { name: 'reads that retry', load: reads, connections: READERS, isRetrying: true },
      ]) {
        figures.push(...(await measure(bench, load, one)));
      }
      return figures;
    } finally {
      await load.stop();
    }
  },
};

async function measure(
  bench: Bench,
  load: Worker<HttpLoadMethods>,
  { name, load: what, connections, isRetrying }: Case,
): Promise<Figure[]> {
  const seconds = bench.quick ? QUICK_SECONDS : SECONDS;
  // The first seconds are the warm-up.
  await load.call('closedLoop', { ...what, connections, seconds: Math.ceil(seconds / 4) });
  const full = await load.call('closedLoop', { ...what, connections, seconds });
  const capacity = full.perSecond;
  bench.note(`${name}: capacity ${capacity.toFixed(0)}/s, p99 ${full.p99.toFixed(1)} ms`);
  const result = await load.call('flood', {
    ...what,
    perSecond: capacity * TIMES,
    seconds,
    isRetrying,
    warmUpSeconds: WARM_UP_SECONDS,
  });
  bench.note(`${name}: ${JSON.stringify(result)}`);
  const recovery = await recover(load, { what, perSecond: capacity / 2, p99: full.p99 });
  const goodput = result.acceptedInTime / seconds / capacity;
  return [
    figure({ name: `${name}: capacity`, value: capacity, unit: '/s', digits: 0 }),
    atLeast(0.8, {
      name: `${name}: goodput at ${TIMES} times capacity, to capacity`,
      value: goodput,
    }),
    atMost(3, {
      name: `${name}: p99 of what was accepted, to that at capacity`,
      value: result.acceptedP99 / full.p99,
      more: `${result.acceptedP99.toFixed(0)} and ${full.p99.toFixed(0)} ms`,
    }),
    atMost(50, {
      name: `${name}: refusals, p99`,
      value: result.refusedP99,
      unit: ' ms',
      digits: 0,
      more: `median ${result.refusedP50.toFixed(0)} ms, ${result.refused} of ${result.sent} sent`,
    }),
    atMost(0, { name: `${name}: other failures`, value: result.failed, digits: 0 }),
    atMost(RECOVERY_S, {
      name: `${name}: normal again after`,
      value: recovery,
      unit: ' s',
      digits: 0,
    }),
  ];
}

/** Seconds until the system serves one second of half the capacity completely, and as fast as at capacity. */
async function recover(
  load: Worker<HttpLoadMethods>,
  o: { what: Load; perSecond: number; p99: number },
): Promise<number> {
  for (let second = 1; second <= 3 * RECOVERY_S; second += 1) {
    const slice = { ...o.what, perSecond: o.perSecond, seconds: 1 };
    const plain = { warmUpSeconds: 0, isRetrying: false };
    const { sent, accepted, acceptedP99 } = await load.call('flood', { ...slice, ...plain });
    if (accepted === sent && acceptedP99 <= o.p99) return second;
  }
  return Number.POSITIVE_INFINITY;
}
