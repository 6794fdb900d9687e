import { percentile } from '../../../deploy/local/demo/percentiles.ts';
import { startWorker } from '../child.ts';
import { startHooks } from '../ends/hooks.ts';
import type { Figure } from '../figure.ts';
import type { HttpLoadMethods } from '../http-load.ts';
import type { Load } from '../load.ts';
import { byProcessFigure, startMeter, type Work, withoutEnds } from '../measure.ts';
import { atMost, type Bench, cpuFigures, figure, type Row } from '../row.ts';
import { makeReturns, makeShop } from '../shop.ts';
import { mostExpensive, resetStatements, statementsSince } from '../statements.ts';
import { storedBytes, storedFigure } from '../stored.ts';

/** Process calls per second. */
export const PER_SECOND = 20;
const LINES = 2;
/** Goal for the CPU of all processes, to that of a delivery of Outpost in a burst. */
const CPU_GOAL = 16;

/** Measures from the `process` call to the arrival of `return.closed` at the sink. */
export const closed: Row = {
  name: 'closed',
  about: `Open loop, ${PER_SECOND} process calls a second over REST, each on a return of ${LINES} lines. Latency from the scheduled time of the call to the arrival of return.closed at the sink.`,
  async run(bench) {
    const { platform } = bench;
    await platform.run(['gateway', 'returns', 'webhooks']);
    const shop = await makeShop(platform);
    const [warmUp, counted] = bench.quick ? [40, 160] : [300, 1_200];
    const before = await storedBytes(platform);
    const made = await makeReturns(platform, shop, { count: warmUp + counted, lines: LINES });
    const ids = made.map(({ id }) => id);
    const hooks = await startHooks(bench, [shop.id]);
    const load = startWorker<HttpLoadMethods>({ name: 'load', args: ['test/bench/http-load.ts'] });
    const call = (some: readonly bigint[]) =>
      load.call('schedule', {
        ...callsOf(some, platform.gatewayUrl),
        headers: shop.headers,
        perSecond: PER_SECOND,
      });
    try {
      await call(ids.slice(0, warmUp));
      await hooks.untilReceived(warmUp);
      await hooks.sink.call('keepTimes', 'return');
      // Autovacuum does this in the first minute. Without statistics, PostgreSQL searches the outcomes of a return among
      // all of its shop.
      await platform.admin.query('analyze');
      await resetStatements(platform.admin);
      const stop = await startMeter(platform, [...hooks.both, load]);
      const { due, failed } = await call(ids.slice(warmUp));
      if (failed > 0) throw new Error(`${failed} process calls failed`);
      await hooks.untilReceived(ids.length);
      const work = await stop();
      for (const line of mostExpensive(await statementsSince(platform.admin))) bench.note(line);
      const { times } = await hooks.arrivals();
      const latencies = due.map(
        (time, at) => (times.get(String(ids[warmUp + at])) ?? Number.NaN) - time,
      );
      const after = await storedBytes(platform);
      return [
        ...figuresOf(bench, latencies, work, counted),
        storedFigure('return', after.returns - before.returns, ids.length),
      ];
    } finally {
      await Promise.all([load.stop(), hooks.stop()]);
    }
  },
};

function figuresOf(
  bench: Bench,
  latencies: readonly number[],
  work: Work,
  count: number,
): Figure[] {
  const ms = (share: number) => ({
    value: percentile(latencies, share),
    unit: ' ms',
    digits: 1,
  });
  return [
    atMost(100, { name: 'call → return.closed received, p50', ...ms(0.5) }),
    atMost(500, { name: 'call → return.closed received, p99', ...ms(0.99) }),
    figure({ name: 'call → return.closed received, longest', ...ms(1) }),
    ...cpuFigures(bench, CPU_GOAL, {
      name: 'CPU-s per 1,000 returns, all processes',
      value: (work.total / count) * 1_000,
    }),
    figure({
      name: 'CPU-s per 1,000 returns, without load, sink and publisher',
      value: (withoutEnds(work) / count) * 1_000,
    }),
    byProcessFigure(work, count),
  ];
}

/** The process calls of returns. */
export function callsOf(ids: readonly bigint[], origin: string): Omit<Load, 'headers'> {
  const path = (id: bigint) => `/api/2026-10/warehouse/return/${id}/process`;
  return { origin, lists: [ids.map((id) => ({ method: 'POST', path: path(id) }))] };
}
