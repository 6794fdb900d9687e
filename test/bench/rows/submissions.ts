import { startWorker } from '../child.ts';
import type { HttpLoadMethods } from '../http-load.ts';
import type { Load, LoadRequest } from '../load.ts';
import { atMost, figure, type Row } from '../row.ts';
import { makeReturns, makeShop } from '../shop.ts';

/** Calls of the storefront, half of them about eligibility. */
const CALLS_PER_MINUTE = 1_000;
/** Reads of the other shop. */
const OTHERS_PER_SECOND = 100;
const SECONDS = 60;
const QUICK_SECONDS = 6;
const WARM_UP_SECONDS = 5;

/** What the storefront of one shop costs another shop. */
export const submissions: Row = {
  name: 'submissions',
  about: `${OTHERS_PER_SECOND} reads a second of return details of one shop, alone, and beside ${CALLS_PER_MINUTE} calls a minute of the storefront of another shop: eligibility and submission in turns, each submission of another order. ${SECONDS} s each, open loop, counted after ${WARM_UP_SECONDS} s. Load on the same machine.`,
  async run(bench) {
    const { platform } = bench;
    const services = ['gateway', 'returns', 'dispositions', 'destinations', 'webhooks'] as const;
    await platform.run([...services]);
    const [others, storefront] = [await makeShop(platform), await makeShop(platform)];
    const made = await makeReturns(platform, others, { count: 64, lines: 3 });
    const origin = platform.gatewayUrl;
    const reads: Load = {
      ...{ origin, headers: others.headers },
      lists: made.map(({ id }) => [
        { method: 'GET', path: `/api/2026-10/warehouse/return/details?return_id=${id}` },
      ]),
    };
    const seconds = bench.quick ? QUICK_SECONDS : SECONDS;
    const perSecond = CALLS_PER_MINUTE / 60;
    const calls = Math.ceil(perSecond * (seconds + WARM_UP_SECONDS));
    const submitting: Load = {
      ...{ origin, headers: storefront.headers },
      lists: [Array.from({ length: calls }, (_, at) => callOf(at))],
    };
    const common = { seconds, warmUpSeconds: WARM_UP_SECONDS, isRetrying: false };
    const load = startWorker<HttpLoadMethods>({ name: 'load', args: ['test/bench/http-load.ts'] });
    try {
      const read = () => load.call('flood', { ...reads, ...common, perSecond: OTHERS_PER_SECOND });
      const alone = await read();
      const [beside, own] = await Promise.all([
        read(),
        load.call('flood', { ...submitting, ...common, perSecond }),
      ]);
      bench.note(JSON.stringify({ alone, beside, own }));
      return [
        atMost(2, {
          name: "p99 of the other shop's reads, beside the storefront to alone",
          value: beside.acceptedP99 / alone.acceptedP99,
          more: `${beside.acceptedP99.toFixed(1)} and ${alone.acceptedP99.toFixed(1)} ms`,
        }),
        figure({
          name: "p99 of the storefront's calls",
          value: own.acceptedP99,
          unit: ' ms',
          digits: 1,
        }),
        atMost(0, { name: 'failures', value: own.failed + beside.failed + own.refused, digits: 0 }),
      ];
    } finally {
      await load.stop();
    }
  },
};

/** Eligibility of a sample order, then the submission of a unit of it. */
function callOf(at: number): LoadRequest {
  const order = `#T10-${1 + Math.floor(at / 2)}`;
  if (at % 2 === 1) return submissionOf(order);
  const path = `/api/2026-10/orders/eligibility?order_name=${encodeURIComponent(order)}`;
  return { method: 'GET', path };
}

/** The submission of one unit of a sample order. */
export function submissionOf(order: string): LoadRequest {
  return {
    method: 'POST',
    path: '/api/2026-10/returns',
    headers: { 'Idempotency-Key': order },
    body: JSON.stringify({ order_name: order, items: [{ sku: 'SAMPLE-MUG', quantity: 1 }] }),
  };
}
