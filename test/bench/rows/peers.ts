import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../../../deploy/local/demo/percentiles.ts';
import { startHooks } from '../ends/hooks.ts';
import type { Figure } from '../figure.ts';
import { outpost } from '../peers/outpost.ts';
import { type Peer, type System, startPeer } from '../peers/peer.ts';
import { PeerUnavailable } from '../peers/programs.ts';
import { svix } from '../peers/svix.ts';
import { atLeast, atMost, type Bench, figure, type Row } from '../row.ts';
import { spreadOf } from '../stats.ts';
import { cpuOfTree, memoryOfTree, readProcesses } from '../work.ts';

const SHOPS = 50;
const WINDOW = 2_000;
const OURS = 'ours';

/** Goals of the ratios to Outpost, and of latencies in milliseconds. */
const GOALS = {
  burst: { rate: 1.3, cpu: 0.8 },
  'at 200/s': { cpu: 1, p50: 12, p99: 30 },
  'at 50/s': { cpu: 1.5, p50: 8 },
  idle: { cpu: 2 },
} as const;

/** One system under one load. */
interface Measured {
  /** CPU-s per 1,000 deliveries: of all processes, and without both ends. Idle: % of a core. */
  readonly cpu: number;
  readonly own: number;
  /** Deliveries a second. */
  readonly rate?: number;
  /** Milliseconds. */
  readonly p50?: number;
  readonly p99?: number;
  /** MB. */
  readonly memory?: number;
}

type Load = keyof typeof GOALS;
type Loads = Readonly<Record<Load, Measured>>;

/** Ours and two other programs, one after the other, under the same loads. */
export const peers: Row = {
  name: 'peers',
  about: `Ours, Outpost and Svix, each alone: idle; 50 and 200 events a second in an open loop; then a burst with ${WINDOW} events on their way. One event to a transaction or call, ${SHOPS} shops with an endpoint each, whole returns as bodies.`,
  async run(bench) {
    if (bench.peerBin === undefined)
      return [{ name: 'peers', value: 'not measured: --peer-bin <folder> is missing' }];
    const found = new Map<string, Loads>();
    const absent: Figure[] = [];
    found.set(OURS, await loadsOf(bench, await startOurs(bench)));
    await bench.platform.run([]);
    for (const peer of [outpost, svix]) {
      const loads = await peerLoads(bench, peer).catch((error: unknown) => {
        // A peer that fails does not prevent the others.
        const value = error instanceof PeerUnavailable ? error.message : String(error);
        absent.push({ name: peer.name, value: `not measured: ${value}` });
      });
      if (loads) found.set(peer.name, loads);
    }
    bench.measured.peerDelivery = found.get(outpost.name)?.burst.cpu;
    return [...figuresOf(found), ...absent];
  },
};

async function startOurs(bench: Bench): Promise<System & { shops: readonly bigint[] }> {
  const { platform } = bench;
  // Processes of an earlier row have larger heaps.
  await platform.run([]);
  await platform.run(['returns', 'webhooks']);
  const shops = bench.newShops(SHOPS);
  const hooks = await startHooks(bench, shops);
  const pids = [platform.postgresPid, platform.kafkaPid, ...platform.processes().map(pidOf)];
  return { name: OURS, shops, hooks, ...usageOf(pids), stop: hooks.stop };
}

async function peerLoads(bench: Bench, peer: Peer): Promise<Loads> {
  const folder = await mkdtemp(join(tmpdir(), 'rms-peer-'));
  const shops = Array.from({ length: SHOPS }, (_, at) => BigInt(at + 1));
  try {
    const system = await startPeer(peer, { bin: bench.peerBin ?? '', folder, shops });
    return await loadsOf(bench, { ...system, shops });
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

type Loaded = System & { readonly shops: readonly bigint[] };

async function loadsOf(bench: Bench, system: Loaded): Promise<Loads> {
  bench.note(`${system.name} started`);
  try {
    const idle = await idleOf(bench, system);
    const at50 = await flowOf(bench, system, 50);
    const at200 = await flowOf(bench, system, 200);
    const burst = await burstOf(bench, system);
    const loads = { burst, 'at 200/s': at200, 'at 50/s': at50, idle };
    bench.note(`${system.name}: ${JSON.stringify(loads)}`);
    return loads;
  } finally {
    await system.stop();
  }
}

async function idleOf(bench: Bench, system: System): Promise<Measured> {
  await sleep(bench.quick ? 2_000 : 30_000);
  const began = performance.now();
  const stop = startSlice(bench, system);
  await sleep(bench.quick ? 3_000 : 30_000);
  const { own } = stop();
  const cpu = (own / ((performance.now() - began) / 1_000)) * 100;
  return { cpu, own: cpu, memory: system.memory() };
}

async function flowOf(bench: Bench, system: Loaded, perSecond: number): Promise<Measured> {
  const { hooks, shops } = system;
  const before = (await hooks.arrivals()).received;
  const flow = (seconds: number) =>
    hooks.publisher.call('flow', { shops, perSecond, count: perSecond * seconds });
  const warm = await flow(bench.quick ? 3 : 10);
  await hooks.untilReceived(before + warm.size);
  await hooks.sink.call('keepTimes', system.name === OURS ? 'event' : 'delivery');
  const stop = startSlice(bench, system);
  const scheduled = await flow(bench.quick ? 5 : 60);
  await hooks.untilReceived(before + warm.size + scheduled.size);
  const work = stop();
  const { times } = await hooks.arrivals();
  await hooks.sink.call('keepTimes', 'nothing');
  const latencies = [...scheduled].map(([id, due]) => (times.get(id) ?? Number.NaN) - due);
  const [p50, p99] = [percentile(latencies, 0.5), percentile(latencies, 0.99)];
  return { ...perThousand(work, scheduled.size), p50, p99 };
}

async function burstOf(bench: Bench, { hooks, shops, ...system }: Loaded): Promise<Measured> {
  const { received } = await hooks.arrivals();
  const before = await hooks.publisher.call('stop', undefined);
  // A call to a peer takes longer than a transaction of ours. With a dozen callers a peer would wait for them.
  const writers = system.name === OURS ? 12 : 64;
  await hooks.publisher.call('saturate', { shops, window: WINDOW, batch: 1, writers });
  await sleep(bench.quick ? 3_000 : 20_000);
  const slices: Required<Pick<Measured, 'rate' | 'cpu' | 'own'>>[] = [];
  for (let at = 0; at < (bench.quick ? 2 : 12); at += 1) {
    const [count, began] = [(await hooks.arrivals()).received, performance.now()];
    const stop = startSlice(bench, { hooks, ...system });
    await sleep(bench.quick ? 2_000 : 5_000);
    const work = stop();
    const done = (await hooks.arrivals()).received - count;
    const rate = done / ((performance.now() - began) / 1_000);
    slices.push({ rate, ...perThousand(work, done) });
  }
  const published = (await hooks.publisher.call('stop', undefined)) - before;
  await hooks.untilReceived(received + published);
  const median = (of: (one: (typeof slices)[number]) => number) => spreadOf(slices.map(of)).median;
  return {
    rate: median(({ rate }) => rate),
    cpu: median(({ cpu }) => cpu),
    own: median(({ own }) => own),
    memory: system.memory(),
  };
}

interface Cpu {
  readonly cpu: number;
  readonly own: number;
}

/** Begins a slice. The returned function ends it, and returns CPU-seconds. */
function startSlice(bench: Bench, system: Pick<System, 'hooks' | 'cpu'>): () => Cpu {
  const endSlice = bench.platform.shares.begin();
  const before = cpuOf(system);
  return () => {
    const after = cpuOf(system);
    endSlice();
    return { cpu: after.cpu - before.cpu, own: after.own - before.own };
  };
}

function cpuOf({ hooks, cpu }: Pick<System, 'hooks' | 'cpu'>): Cpu {
  const own = cpu();
  const all = readProcesses();
  return { own, cpu: own + hooks.both.reduce((sum, { pid }) => sum + cpuOfTree(pid, all), 0) };
}

const pidOf = ({ pid }: { readonly pid: number }) => pid;
const perThousand = ({ cpu, own }: Cpu, count: number): Cpu => ({
  cpu: (cpu / count) * 1_000,
  own: (own / count) * 1_000,
});

function usageOf(pids: readonly number[]): Pick<System, 'cpu' | 'memory'> {
  return {
    cpu() {
      const all = readProcesses();
      return pids.reduce((sum, pid) => sum + cpuOfTree(pid, all), 0);
    },
    memory: () => pids.reduce((sum, pid) => sum + memoryOfTree(pid), 0),
  };
}

/** First our ratios to Outpost, with goals. Then everything that was measured. */
function figuresOf(found: ReadonlyMap<string, Loads>): Figure[] {
  const ours = found.get(OURS);
  const theirs = found.get(outpost.name);
  const ratios = Object.entries(GOALS).flatMap(([load, goals]) =>
    ours ? ratiosOf(load as Load, goals, ours, theirs) : [],
  );
  const all = [...found].flatMap(([name, loads]) =>
    Object.entries(loads).map(([load, one]) => ({ name: `${name}, ${load}`, value: textOf(one) })),
  );
  return [...ratios, ...all];
}

function ratiosOf(
  load: Load,
  goals: {
    readonly rate?: number;
    readonly cpu: number;
    readonly p50?: number;
    readonly p99?: number;
  },
  ours: Loads,
  theirs: Loads | undefined,
): Figure[] {
  const [own, other] = [ours[load], theirs?.[load]];
  const figures: Figure[] = [];
  if (goals.rate !== undefined && own.rate !== undefined && other?.rate !== undefined)
    figures.push(
      atLeast(goals.rate, { name: `${load}: rate, to Outpost`, value: own.rate / other.rate }),
    );
  if (other)
    figures.push(
      atMost(goals.cpu, { name: `${load}: CPU, to Outpost`, value: own.cpu / other.cpu }),
    );
  for (const name of ['p50', 'p99'] as const) {
    const [bound, value] = [goals[name], own[name]];
    if (bound !== undefined && value !== undefined)
      figures.push(atMost(bound, { name: `${load}: ${name}`, value, unit: ' ms', digits: 1 }));
  }
  return figures;
}

function textOf({ cpu, own, rate, p50, p99, memory }: Measured): string {
  const parts = [
    rate !== undefined && `${figure({ name: '', value: rate, digits: 0 }).value}/s`,
    p50 === undefined && rate === undefined
      ? `${cpu.toFixed(1)} % of a core`
      : `CPU-s per 1,000 ${cpu.toFixed(2)}, without both ends ${own.toFixed(2)}`,
    p50 !== undefined && `p50 ${p50.toFixed(1)} ms, p99 ${p99?.toFixed(1)} ms`,
    memory !== undefined && `${memory.toFixed(0)} MB`,
  ];
  return parts.filter(Boolean).join(', ');
}
