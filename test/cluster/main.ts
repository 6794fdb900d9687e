import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { until } from '../kit/until.ts';
import { kubectl } from './kubectl.ts';
import { type Outcomes, startLoad } from './load.ts';
import {
  arrived,
  demoShop,
  evict,
  install,
  migrate,
  PROCESSES,
  pods,
  restarts,
  rollTo,
  undo,
  untilReady,
} from './system.ts';

interface Options {
  readonly image: string;
  readonly demoImage: string;
  readonly next: string;
  readonly gateway?: string;
}

/** A return of the demo shop that the run processes. */
interface OpenReturn {
  readonly id: number;
  readonly order_name: string;
}

const WEBHOOK = { url: 'http://receiver:8080/cluster', topic: 'return', trigger: 'return.closed' };

await new Command('node test/cluster/main.ts')
  .description(
    'Installs the dev overlay in the cluster of KUBECONFIG, and goes through a release, its way back, evictions and outages under load. The images must be in the cluster.',
  )
  .requiredOption('--image <name:tag>', 'stage `release` of deploy/Dockerfile')
  .requiredOption('--demo-image <name:tag>', 'stage `dev`')
  .requiredOption('--next <name:tag>', 'the next release, with a migration')
  .option('--gateway <url>', 'address of the Service `gateway`; its cluster IP by default')
  .action(main)
  .parseAsync();

async function main(o: Options): Promise<void> {
  const failures: string[] = [];
  const check = (what: string, holds: boolean): void => {
    say(`${holds ? 'holds' : 'FAILS'}: ${what}`);
    if (!holds) failures.push(what);
  };

  say('install the dev overlay');
  await install(o.image, o.demoImage);
  check(`no container was restarted ${show(await restarts())}`, isEmpty(await restarts()));
  const shop = await demoShop();
  const url = o.gateway ?? `http://${await clusterIp()}`;
  const headers = { 'X-Authorization': shop.key, 'Content-Type': 'application/json' };
  const post = (path: string, body: unknown) =>
    fetch(`${url}/api/v1/${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  await post('webhooks', WEBHOOK);

  const open: OpenReturn[] = [...shop.returns];
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
    const tookS = Math.round((performance.now() - startedMs) / 1_000);
    await processing;
    const outcomes = await load.stop();
    check(`${what}: ${tookS} s, ${show(outcomes)}`, hasOnly(outcomes, allowed));
  };

  await under('migrate, and roll out the next release', async () => {
    await migrate(o.next);
    await restartEach();
    await rollTo(o.next);
  }, ['200']);
  await under('take it back', undo, ['200']);
  await under('evict every pod of the processes', evictAll, ['200', 'ECONNREFUSED']);
  await under('delete the pods of PostgreSQL and Kafka', deleteStores, ['200', '503']);

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
  say(failures.length === 0 ? 'all holds' : `${failures.length} of the checks failed`);
  process.exitCode = failures.length === 0 ? 0 : 1;
}

/** Processes two open returns. Repeats a call that was not answered with 200: processing again has no second effect. */
async function processTwo(
  open: OpenReturn[],
  post: (path: string, body: unknown) => Promise<Response>,
): Promise<number[]> {
  const two = open.splice(0, 2);
  for (const { id } of two) {
    const isAccepted = async () =>
      (await post(`warehouse/return/${id}/process`, {})).status === 200;
    await until(isAccepted, { withinMs: 120_000, everyMs: 500, despiteErrors: true });
    await sleep(2_000);
  }
  return two.map(({ id }) => id);
}

/** Restarts every pod of the release that runs, on the schema of the next. */
async function restartEach(): Promise<void> {
  for (const name of PROCESSES) {
    await kubectl('rollout', 'restart', `deployment/${name}`);
    await kubectl('rollout', 'status', `deployment/${name}`, '--timeout=300s');
  }
}

async function evictAll(): Promise<void> {
  // Pods of the former step may still be ending.
  await untilReady();
  const names = (await pods()).map(({ metadata }) => metadata.name);
  for (const name of names.filter((one) => PROCESSES.some((process) => one.startsWith(process)))) {
    await evict(name);
    await untilReady();
  }
}

async function deleteStores(): Promise<void> {
  await kubectl('delete', 'pod', 'postgres-0', 'kafka-0', '--wait');
  await untilReady();
}

async function clusterIp(): Promise<string> {
  return kubectl('get', 'service/gateway', '-o', 'jsonpath={.spec.clusterIP}');
}

function hasOnly(outcomes: Outcomes, allowed: readonly string[]): boolean {
  return Object.keys(outcomes).every((outcome) => allowed.includes(outcome));
}

function isEmpty(record: object): boolean {
  return Object.keys(record).length === 0;
}

function show(record: object): string {
  const parts = Object.entries(record).map(([name, count]) => `${name} × ${count}`);
  return parts.join(', ');
}

function say(text: string): void {
  process.stdout.write(`[${Math.round(performance.now() / 1_000)} s] ${text}\n`);
}
