import { type Hooks, startHooks } from '../ends/hooks.ts';
import { startMeter, withoutEnds } from '../measure.ts';
import { atMost, type Bench, figure, type Row } from '../row.ts';
import { spreadOf } from '../stats.ts';
import { residentOf } from '../work.ts';

/** The same rate with few and with many endpoints, so that batches have the same size. */
const PER_SECOND = 200;
const RSS_GOAL_MB = 350;

/** The cost of a delivery with many endpoints, each of a different shop. */
export const endpoints: Row = {
  name: 'endpoints',
  about: `Open loop, ${PER_SECOND} events a second, first to one shop with one endpoint, then over all of 100,000 shops with one endpoint each, in turn (one host: connections are not what is measured).`,
  async run(bench) {
    const { platform } = bench;
    await platform.run(['returns', 'webhooks']);
    const few = bench.newShops(1);
    const many = bench.newShops(bench.quick ? 2_000 : 100_000);
    const one = await cpuOf(bench, few);
    const all = await cpuOf(bench, many);
    const webhooks = platform.processes().find(({ name }) => name === 'webhooks');
    return [
      atMost(1.3, {
        name: `CPU a delivery, ${many.length} endpoints to 1`,
        value: all.cpu / one.cpu,
        more: `${all.cpu.toFixed(2)} and ${one.cpu.toFixed(2)} CPU-s per 1,000`,
      }),
      figure({
        name: `CPU a delivery without sink and publisher, ${many.length} endpoints to 1`,
        value: all.product / one.product,
        more: `${all.product.toFixed(2)} and ${one.product.toFixed(2)} CPU-s per 1,000`,
      }),
      atMost(RSS_GOAL_MB, {
        name: `RSS of webhooks with ${many.length} endpoints`,
        value: residentOf(webhooks?.pid ?? 0),
        unit: ' MB',
        digits: 0,
      }),
    ];
  },
};

/** CPU-s per 1,000 deliveries: of all processes, and without sink and publisher. */
async function cpuOf(
  bench: Bench,
  shops: readonly bigint[],
): Promise<{ readonly cpu: number; readonly product: number }> {
  const hooks = await startHooks(bench, shops);
  try {
    await flow(hooks, shops, bench.quick ? 3 : 15);
    const slices: { readonly cpu: number; readonly product: number }[] = [];
    for (let at = 0; at < (bench.quick ? 2 : 10); at += 1) {
      const stop = await startMeter(bench.platform, hooks.both);
      const count = await flow(hooks, shops, bench.quick ? 3 : 5);
      const work = await stop();
      const each = (seconds: number) => (seconds / count) * 1_000;
      slices.push({ cpu: each(work.total), product: each(withoutEnds(work)) });
    }
    return {
      cpu: spreadOf(slices.map(({ cpu }) => cpu)).median,
      product: spreadOf(slices.map(({ product }) => product)).median,
    };
  } finally {
    await hooks.stop();
  }
}

async function flow(hooks: Hooks, shops: readonly bigint[], seconds: number): Promise<number> {
  const count = PER_SECOND * seconds;
  const { received } = await hooks.arrivals();
  await hooks.publisher.call('flow', { shops, perSecond: PER_SECOND, count });
  await hooks.untilReceived(received + count);
  return count;
}
