import { startWorker } from '../child.ts';
import { startHooks } from '../ends/hooks.ts';
import type { Figure } from '../figure.ts';
import type { HttpLoadMethods } from '../http-load.ts';
import type { LoadRequest } from '../load.ts';
import { byProcessFigure, startMeter, together, type Work } from '../measure.ts';
import { type Bench, cpuFigures, type Row } from '../row.ts';
import { makeShop } from '../shop.ts';
import { callsOf, PER_SECOND } from './closed.ts';
import { submissionOf } from './submissions.ts';
import { ASSESS, assessmentsOf } from './write.ts';

/** Goals, to a delivery of Outpost in a burst. */
const GOALS = { submit: 6, assess: 10, process: 16 };
const LIFE_GOAL = 32;

/** What a return costs from its submission to its last webhook. */
export const life: Row = {
  name: 'life',
  about: `Open loop, ${PER_SECOND} calls a second over REST: submissions of one unit of an order, then an assessment of each return, then its processing until return.closed has arrived. CPU of all processes for each part.`,
  async run(bench) {
    const { platform } = bench;
    await platform.run(['gateway', 'returns', 'dispositions', 'destinations', 'webhooks']);
    const shop = await makeShop(platform);
    const [warmUp, counted] = bench.quick ? [40, 160] : [300, 1_200];
    const hooks = await startHooks(bench, [shop.id]);
    const load = startWorker<HttpLoadMethods>({ name: 'load', args: ['test/bench/http-load.ts'] });
    const origin = platform.gatewayUrl;
    /** Sends the calls. The work is that of all but the first, which warm up. */
    const part = async (requests: readonly LoadRequest[], done = async () => {}) => {
      const send = async (some: readonly LoadRequest[]) => {
        const sent = { origin, headers: shop.headers, lists: [some], perSecond: PER_SECOND };
        const { bodies, failed } = await load.call('schedule', sent);
        if (failed > 0) throw new Error(`${failed} calls failed`);
        return bodies;
      };
      const first = await send(requests.slice(0, warmUp));
      const stop = await startMeter(platform, [...hooks.both, load]);
      const others = await send(requests.slice(warmUp));
      await done();
      return { bodies: [...first, ...others], work: await stop() };
    };
    try {
      await platform.admin.query('analyze');
      const orders = Array.from({ length: warmUp + counted }, (_, at) => `#T10-${at + 1}`);
      const submit = await part(orders.map(submissionOf));
      const made: readonly Submitted[] = submit.bodies.map((body) => JSON.parse(body));
      const assess = await part(made.map(assessment));
      const ids = made.map(({ id }) => BigInt(id));
      const processing = callsOf(ids, origin).lists.flat();
      const close = await part(processing, () => hooks.untilReceived(ids.length));
      const works = { submit: submit.work, assess: assess.work, process: close.work };
      return figuresOf(bench, works, counted);
    } finally {
      await Promise.all([load.stop(), hooks.stop()]);
    }
  },
};

interface Submitted {
  readonly id: number;
  readonly line_items: readonly { readonly line_item_id: number }[];
}

function assessment({ line_items }: Submitted): LoadRequest {
  const ids = line_items.map(({ line_item_id: id }) => BigInt(id));
  return { method: 'POST', path: ASSESS, body: assessmentsOf(ids) };
}

function figuresOf(
  bench: Bench,
  works: Readonly<Record<keyof typeof GOALS, Work>>,
  count: number,
): Figure[] {
  const all = together(Object.values(works));
  const cpu = (name: string, { total }: Work, goal: number) =>
    cpuFigures(bench, goal, {
      name: `CPU-s per 1,000: ${name}`,
      value: (total / count) * 1_000,
      digits: 1,
    });
  return [
    ...cpu('submit', works.submit, GOALS.submit),
    ...cpu('assess', works.assess, GOALS.assess),
    ...cpu('process', works.process, GOALS.process),
    ...cpu('the whole life', all, LIFE_GOAL),
    byProcessFigure(all, count),
  ];
}
