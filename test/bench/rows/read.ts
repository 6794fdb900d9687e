import { startWorker } from '../child.ts';
import {
  type Arena,
  type Comparison,
  compare,
  intervalText,
  medianOf,
  workText,
} from '../compare/compare.ts';
import type { Figure } from '../figure.ts';
import type { HttpLoadMethods } from '../http-load.ts';
import type { Load } from '../load.ts';
import type { ReferenceMethods } from '../reference.ts';
import { atLeast, atMost, type Bench, figure, type Row } from '../row.ts';
import { makeReturns, makeShop } from '../shop.ts';

const RETURNS = 200;
const LINES = 3;
const GOALS = [
  { connections: 32, throughput: 0.5 },
  { connections: 128, throughput: 0.75 },
];
const CPU_GOAL = 2.2;

/** Compares GET return details with a single process that runs the same statement and sends the same response. */
export const read: Row = {
  name: 'read',
  about: `GET return details (${LINES} lines, ${RETURNS} returns in turn) over REST: gateway → gRPC → returns → PostgreSQL, against one Express process with the same statement and the same bytes. CPU: what serves, PostgreSQL included, the load not.`,
  async run(bench) {
    const { platform } = bench;
    await platform.run(['gateway', 'returns', 'webhooks']);
    const shop = await makeShop(platform);
    const made = await makeReturns(platform, shop, { count: RETURNS, lines: LINES });
    await platform.run(['gateway', 'returns']);
    const reference = startWorker<ReferenceMethods>({
      name: 'reference',
      args: ['test/bench/reference.ts'],
      env: { READS_URL: platform.urlOf('returns'), SHOP_ID: String(shop.id) },
    });
    const load = startWorker<HttpLoadMethods>({ name: 'load', args: ['test/bench/http-load.ts'] });
    try {
      const port = await reference.call('listen', undefined);
      const ids = made.map(({ id }) => id);
      const ours: Load = {
        ...loadOf(ids, platform.gatewayUrl, '/api/2026-10/warehouse/return/details'),
        headers: shop.headers,
      };
      const theirs = loadOf(ids, `http://127.0.0.1:${port}`, '/details');
      const ready = loadOf(ids, `http://127.0.0.1:${port}`, '/details-ready');
      await requireSameBytes(ours, theirs);
      const arena = { platform, load, beside: [reference], ...lengths(bench) };
      return await measure(arena, { ours, theirs, ready });
    } finally {
      await Promise.all([reference.stop(), load.stop()]);
    }
  },
};

export const lengths = ({ quick }: Bench) =>
  quick ? { pairs: 3, seconds: 2 } : { pairs: 10, seconds: 4 };

async function measure(
  arena: Arena,
  loads: { readonly ours: Load; readonly theirs: Load; readonly ready: Load },
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const { connections, throughput } of GOALS) {
    const side = (load: Load) => ({ load, connections });
    const found = await compare(arena, side(loads.ours), side(loads.theirs));
    const at = `at ${connections} connections`;
    figures.push(
      atLeast(throughput, {
        name: `throughput, ours to theirs, ${at}`,
        value: found.throughput.median,
        more: intervalText(found.throughput),
      }),
      atMost(CPU_GOAL, {
        name: `CPU, ours to theirs, ${at}`,
        value: found.cpu.median,
        more: intervalText(found.cpu),
      }),
      ...absolute(found, at),
    );
    if (connections !== GOALS[0]?.connections) continue;
    const { cpu } = await compare(arena, side(loads.ours), side(loads.ready));
    const name = `CPU, ours to the statement alone with an answer made before, ${at}`;
    figures.push(figure({ name, value: cpu.median, more: intervalText(cpu) }));
  }
  return figures;
}

/** The absolute figures behind the ratios. They apply only to this machine. */
export function absolute({ ours, theirs }: Comparison, at: string): Figure[] {
  const sides = [
    ['ours', ours],
    ['theirs', theirs],
  ] as const;
  return sides.map(([name, slices]) => ({
    name: `${name}, ${at}`,
    value: `${medianOf(slices, (one) => one.perSecond).toFixed(0)}/s, ${medianOf(slices, (one) => one.cpu).toFixed(3)} CPU-s per 1,000, p50 ${medianOf(slices, (one) => one.p50).toFixed(0)} ms: ${workText(slices)}`,
  }));
}

function loadOf(ids: readonly bigint[], origin: string, path: string): Load {
  const list = ids.map((id) => ({ method: 'GET' as const, path: `${path}?return_id=${id}` }));
  return { origin, headers: {}, lists: [list] };
}

async function requireSameBytes(ours: Load, theirs: Load): Promise<void> {
  const bodyOf = async ({ origin, headers, lists }: Load) =>
    (await fetch(`${origin}${lists[0]?.[0]?.path}`, { headers })).text();
  const [one, other] = await Promise.all([bodyOf(ours), bodyOf(theirs)]);
  if (one !== other) throw new Error(`the responses differ:\n${one}\n${other}`);
}
