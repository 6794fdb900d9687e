import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../kit/until.ts';
import { arrived, type DemoReturn, demoShop } from '../demo.ts';
import { DEV } from '../kubectl.ts';
import { startLoad } from '../load.ts';
import { evict, processPods, untilReady } from '../pods.ts';
import { migrate, restartEach, rollTo, undo } from '../release.ts';
import { gatewayUrl, hasOnly, secondsSince, show, type Trial } from '../trial.ts';

const WEBHOOK = { url: 'http://receiver:8080/cluster', topic: 'return', trigger: 'return.closed' };

type Post = (path: string, body: unknown) => Promise<Response>;

/** A release, its way back, evictions and outages of the stores, under load and while returns are processed. */
export async function upgrade(trial: Trial): Promise<void> {
  const { check, say, images } = trial;
  const shop = await demoShop();
  const url = await gatewayUrl(trial, DEV);
  const headers = { 'X-Authorization': shop.key, 'Content-Type': 'application/json' };
  const post: Post = (path, body) =>
    fetch(`${url}/api/v1/${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  await post('webhooks', WEBHOOK);

  const open: DemoReturn[] = [...shop.returns];
  const processed: number[] = [];
  const readable = open.pop();
  if (!readable) throw new Error('the demo shop has no open return');
  const path = `/api/v1/warehouse/return/details?order_name=${encodeURIComponent(readable.order_name)}`;

  /** Does something under load, while two returns are processed. */
  const under = async (what: string, work: () => Promise<void>, allowed: readonly string[]) => {
    say(what);
    const load = startLoad({ url, path, headers });
    const startedMs = performance.now();
    const processing = processTwo(open, post).then((ids) => processed.push(...ids));
    await work();
    const tookS = secondsSince(startedMs);
    await processing;
    const outcomes = await load.stop();
    check(`${what}: ${tookS} s, ${show(outcomes)}`, hasOnly(outcomes, allowed));
  };

  const release = async () => {
    await migrate(DEV, images.next);
    await restartEach(DEV);
    await rollTo(DEV, images.next);
  };
  await under('migrate, and roll out the next release', release, ['200']);
  await under('take it back', () => undo(DEV), ['200']);
  await under('evict every pod of the processes', evictAll, ['200', 'ECONNREFUSED']);
  await under('delete the pods of PostgreSQL and Kafka', deleteStores, ['200', '503']);
  await compare(trial, processed);
}

/** Every processed return has its webhook, once. */
async function compare({ check, say }: Trial, processed: readonly number[]): Promise<void> {
  say('compare what was processed with what arrived');
  const isAllThere = async () => {
    const ids = new Set([...(await arrived()).values()].map(({ returnId }) => returnId));
    return processed.every((id) => ids.has(id));
  };
  check(
    `${processed.length} webhooks arrived`,
    await until(isAllThere, 120_000).catch(() => false),
  );
  const repeated = [...(await arrived()).values()].filter(({ count }) => count > 1);
  check(`${repeated.length} came more than once`, repeated.length === 0);
}

/** Processes two open returns. Repeats a call that was not answered with 200: processing again has no second effect. */
async function processTwo(open: DemoReturn[], post: Post): Promise<number[]> {
  const two = open.splice(0, 2);
  for (const { id } of two) {
    const isAccepted = async () =>
      (await post(`warehouse/return/${id}/process`, {})).status === 200;
    await until(isAccepted, { withinMs: 120_000, everyMs: 500, despiteErrors: true });
    await sleep(2_000);
  }
  return two.map(({ id }) => id);
}

async function evictAll(): Promise<void> {
  // Pods of the former step may still be ending.
  await untilReady(DEV);
  for (const { metadata } of await processPods(DEV)) {
    await evict(DEV, metadata.name);
    await untilReady(DEV);
  }
}

async function deleteStores(): Promise<void> {
  await DEV.kubectl('delete', 'pod', 'postgres-0', 'kafka-0', '--wait');
  await untilReady(DEV);
}
