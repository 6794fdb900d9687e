import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, InvalidArgumentError } from 'commander';
import { inParallel } from '../../../deploy/local/demo/in-parallel.ts';
import { percentile } from '../../../deploy/local/demo/percentiles.ts';
import { startWorker, type Worker } from '../child.ts';
import type { SinkMethods } from '../sink.ts';
import { spreadOf } from '../stats.ts';
import { cpuOfTree, readProcesses } from '../work.ts';
import {
  buildOutpost,
  type Outpost,
  PeerUnavailable,
  requirePrograms,
  startOutpost,
} from './outpost-stack.ts';
import { type PeerResult, UNAVAILABLE } from './peer.ts';
import type { PublishMethods } from './publish.ts';

/** The version of earlier comparisons. */
const VERSION = 'f67ae01';
const TENANTS = 50;
const WINDOW = 2_000;
const TOPIC = 'return.closed';
const TIMEOUT_MS = 120_000;

interface Options {
  readonly burst: boolean;
  readonly perSecond?: number;
  readonly quick: boolean;
  readonly version: string;
}

/** Outpost, with the publisher and the receiver of the bench. */
interface Peer {
  readonly outpost: Outpost;
  readonly sink: Worker<SinkMethods>;
  readonly publisher: Worker<PublishMethods>;
  readonly tenants: readonly string[];
  received(): number;
}

/** CPU-seconds since the start: of all processes, and without sink and publisher. */
interface Cpu {
  readonly all: number;
  readonly product: number;
}

const options = new Command('node test/bench/peers/outpost.ts')
  .description(
    `Measures Outpost (hookdeck/outpost) under the load of our own rows. Builds it from its Go module; needs Go, redis-server and rabbitmq-server. Prints one line of JSON; status ${UNAVAILABLE} when it cannot be had.`,
  )
  .option('--burst', 'as many deliveries as go: the default', false)
  .option('--per-second <rate>', 'events a second in an open loop', wholeNumber)
  .option('--quick', 'short: to see that it works', false)
  .option('--version <version>', 'version or commit of the module', VERSION)
  .parse()
  .opts<Options>();

// On a signal the process exits normally, which stops its child processes.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

try {
  process.stdout.write(`${JSON.stringify(await main(options))}\n`);
  process.exit(0);
} catch (error) {
  const isUnavailable = error instanceof PeerUnavailable;
  process.stderr.write(`${isUnavailable ? error.message : (Object(error).stack ?? error)}\n`);
  process.exit(isUnavailable ? UNAVAILABLE : 1);
}

async function main(o: Options): Promise<PeerResult> {
  const bin = await buildOutpost(o.version);
  await requirePrograms();
  const folder = await mkdtemp(join(tmpdir(), 'rms-bench-outpost-'));
  let peer: Peer | undefined;
  try {
    peer = await startPeer(bin, folder);
    const found = o.perSecond
      ? await steady(peer, o.perSecond, o.quick)
      : await burst(peer, o.quick);
    return { version: `Outpost ${o.version}`, ...found };
  } finally {
    await Promise.all([peer?.sink.stop(), peer?.publisher.stop()]);
    await peer?.outpost.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function startPeer(bin: string, folder: string): Promise<Peer> {
  const outpost = await startOutpost(bin, folder, TOPIC);
  const sink = startWorker<SinkMethods>({ name: 'sink', args: ['test/bench/sink.ts'] });
  const publisher = startWorker<PublishMethods>({
    name: 'publisher',
    args: ['test/bench/peers/publish.ts'],
    env: { ORIGIN: outpost.origin, API_KEY: outpost.apiKey, RUN: randomUUID() },
  });
  const port = await sink.call('listen', { isCanonical: true });
  const tenants = Array.from({ length: TENANTS }, (_, at) => `tenant-${at}`);
  await inParallel(tenants, 8, (tenant) => subscribe(outpost, tenant, port));
  let received = 0;
  sink.onReceived((count) => {
    received = count;
    publisher.call('received', count).catch(() => {});
  });
  return { outpost, sink, publisher, tenants, received: () => received };
}

/** Creates a tenant with one webhook for the topic. */
async function subscribe({ origin, apiKey }: Outpost, tenant: string, port: number) {
  const path = `${origin}/api/v1/tenants/${tenant}`;
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const url = `http://127.0.0.1:${port}/hooks/${tenant}`;
  const body = JSON.stringify({ type: 'webhook', topics: [TOPIC], config: { url } });
  for (const answer of [
    await fetch(path, { method: 'PUT', headers }),
    await fetch(`${path}/destinations`, { method: 'POST', headers, body }),
  ]) {
    if (!answer.ok)
      throw new Error(`Outpost responded with ${answer.status}: ${await answer.text()}`);
  }
}

async function burst(peer: Peer, isQuick: boolean): Promise<Omit<PeerResult, 'version'>> {
  const { publisher, tenants } = peer;
  await publisher.call('saturate', { tenants, window: WINDOW });
  await sleep(isQuick ? 4_000 : 20_000);
  const slices: { perSecond: number; cpu: number; product: number }[] = [];
  for (let at = 0; at < (isQuick ? 3 : 12); at += 1) {
    const [before, began, cpuBefore] = [peer.received(), performance.now(), cpuOf(peer)];
    await sleep((isQuick ? 3 : 5) * 1_000);
    const [count, seconds] = [peer.received() - before, (performance.now() - began) / 1_000];
    slices.push({ perSecond: count / seconds, ...perThousand(cpuBefore, cpuOf(peer), count) });
  }
  await untilReceived(peer, await publisher.call('stop', undefined));
  const median = (of: (one: (typeof slices)[number]) => number) => spreadOf(slices.map(of)).median;
  return {
    perSecond: median((one) => one.perSecond),
    cpu: median((one) => one.cpu),
    product: median((one) => one.product),
  };
}

async function steady(
  peer: Peer,
  perSecond: number,
  isQuick: boolean,
): Promise<Omit<PeerResult, 'version'>> {
  const flow = (seconds: number) =>
    peer.publisher.call('flow', { tenants: peer.tenants, perSecond, count: perSecond * seconds });
  const warm = await flow(isQuick ? 3 : 15);
  await untilReceived(peer, warm.size);
  await peer.sink.call('keepTimes', 'delivery');
  const before = cpuOf(peer);
  const scheduled = await flow(isQuick ? 8 : 60);
  await untilReceived(peer, warm.size + scheduled.size);
  const sums = perThousand(before, cpuOf(peer), scheduled.size);
  const { times } = await peer.sink.call('arrivals', undefined);
  const latencies = [...scheduled].map(([id, due]) => (times.get(id) ?? Number.NaN) - due);
  return {
    perSecond,
    ...sums,
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
  };
}

function cpuOf({ outpost, sink, publisher }: Peer): Cpu {
  const all = readProcesses();
  const sum = (pids: Iterable<number>) =>
    [...pids].reduce((total, pid) => total + cpuOfTree(pid, all), 0);
  const product = sum(outpost.pids.values());
  return { product, all: product + sum([sink.pid, publisher.pid]) };
}

function perThousand(before: Cpu, after: Cpu, count: number) {
  const each = (seconds: number) => (seconds / count) * 1_000;
  return { cpu: each(after.all - before.all), product: each(after.product - before.product) };
}

async function untilReceived(peer: Peer, count: number): Promise<void> {
  for (const end = performance.now() + TIMEOUT_MS; peer.received() < count; await sleep(20)) {
    if (performance.now() > end) {
      throw new Error(`${count - peer.received()} of ${count} deliveries did not arrive`);
    }
  }
}

function wholeNumber(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new InvalidArgumentError('a whole number from 1');
  return value;
}
