import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../kit/until.ts';
import { type DemoReturn, demoShop } from '../demo.ts';
import { DEV } from '../kubectl.ts';
import { checkLedger, moreReturns, PATH } from '../ledger.ts';
import { startLoad } from '../load.ts';
import { evict, pods, processPods, untilReady } from '../pods.ts';
import { migrate, restartEach, rollTo, undo, untilRolledOut } from '../release.ts';
import { devUrl, hasOnly, secondsSince, show, type Trial } from '../trial.ts';

const WEBHOOK = { url: `http://receiver:8080${PATH}`, topic: 'return', trigger: 'return.closed' };

/** Returns that are processed in each part. */
const SHARE = 15;
/** Between two of them, so that they are spread over the part. Milliseconds. */
const PAUSE_MS = 2_000;

type Post = (path: string, body: unknown) => Promise<Response>;

/** A release, its way back, evictions and outages of the stores, under load and while returns are processed. */
export async function upgrade(trial: Trial): Promise<void> {
  const { check, say, images } = trial;
  const shop = await demoShop();
  const url = await devUrl(trial);
  const headers = { 'X-Authorization': shop.key, 'Content-Type': 'application/json' };
  const post: Post = (path, body) =>
    fetch(`${url}/api/v1/${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  await post('webhooks', WEBHOOK);

  const open = [...(await moreReturns(6 * SHARE)), ...shop.returns];
  const processed: number[] = [];
  const readable = open.pop();
  if (!readable) throw new Error('the demo shop has no open return');
  const path = `/api/v1/warehouse/return/details?order_name=${encodeURIComponent(readable.order_name)}`;

  /** Does something under load, while returns are processed. */
  const under = async (what: string, work: () => Promise<void>, allowed: readonly string[]) => {
    say(what);
    const load = startLoad({ url, path, headers });
    const startedMs = performance.now();
    const processing = startProcessing(open, post);
    await work();
    const tookS = secondsSince(startedMs);
    processed.push(...(await processing.stop()));
    const counts = await load.stop();
    check(`${what}: ${tookS} s, ${show(counts)}`, hasOnly(counts, allowed));
  };

  const release = async () => {
    await migrate(DEV, images.next);
    await restartEach(DEV);
    await rollTo(DEV, images.next);
  };
  await twoEdges();
  await under('migrate, and roll out the next release', release, ['200']);
  await under('take it back', () => undo(DEV), ['200']);
  await under('evict every pod of the processes', evictAll, ['200', '503']);
  await under('roll out the edge', rollEdge, ['200']);
  await under('kill one of the two pods of the edge', killEdge, ['200', ...OF_A_KILLED_POD]);
  await under('delete the pods of PostgreSQL and Kafka', deleteStores, ['200', '503']);
  await checkLedger(trial, processed);
}

/**
 * Processes returns one after the other until it is stopped, and then to the end of its share. Repeats a call that was
 * not answered with 200: processing again has no second effect.
 */
function startProcessing(open: DemoReturn[], post: Post): { stop(): Promise<readonly number[]> } {
  const stopping = new AbortController();
  const share = open.splice(0, SHARE);
  const running = (async () => {
    for (const { id } of share) {
      const isAccepted = async () =>
        (await post(`warehouse/return/${id}/process`, {})).status === 200;
      await until(isAccepted, { withinMs: 120_000, everyMs: 500, despiteErrors: true });
      if (!stopping.signal.aborted) await sleep(PAUSE_MS);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running;
      return share.map(({ id }) => id);
    },
  };
}

/** What a call ends with that is in flight on a pod when it is killed, or that its Service still sends there. */
const OF_A_KILLED_POD = ['ECONNRESET', 'ECONNREFUSED', 'BODY'];

async function twoEdges(): Promise<void> {
  await DEV.kubectl('scale', 'deployment/edge', '--replicas=2');
  await untilReady(DEV);
}

async function rollEdge(): Promise<void> {
  await DEV.kubectl('rollout', 'restart', 'deployment/edge');
  await untilRolledOut(DEV, 'edge');
  await untilReady(DEV);
}

async function killEdge(): Promise<void> {
  const edge = (await pods(DEV)).find(({ metadata }) => metadata.labels.app === 'edge');
  if (!edge) throw new Error('there is no edge');
  await DEV.kubectl('delete', 'pod', edge.metadata.name, '--grace-period=0', '--force');
  await untilReady(DEV);
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
