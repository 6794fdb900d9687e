import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { NodeProcess } from '../kit/process.ts';

/** Number of printed lines of each list. */
const TOP = 25;
/** Interval between two samples. A shorter interval costs more than it helps. Microseconds. */
const SAMPLE_US = 1_000;
/** A longer interval means that the process did not run. Microseconds. */
const LONGEST_US = 3 * SAMPLE_US;
const TIMEOUT_MS = 10_000;

const profile = z.object({
  nodes: z.array(
    z.object({
      id: z.number(),
      callFrame: z.object({ functionName: z.string(), url: z.string(), lineNumber: z.number() }),
    }),
  ),
  samples: z.array(z.number()),
  timeDeltas: z.array(z.number()),
});
type Profile = z.infer<typeof profile>;

const answer = z.object({ id: z.number().optional(), result: z.unknown().optional() });

/**
 * Samples Node processes during `work`, with the inspector that SIGUSR1 opens, and prints where each spent its own time:
 * by part, then by function.
 */
export async function profiled<T>(
  processes: readonly NodeProcess[],
  work: () => Promise<T>,
): Promise<T> {
  const sessions = await Promise.all(
    processes.map(async (one) => ({ name: one.name, stop: await startSampling(one) })),
  );
  const result = await work();
  for (const { name, stop } of sessions) {
    const lines = topOf(await stop());
    process.stdout.write(
      `\n  profile of ${name}\n${lines.map((line) => `    ${line}\n`).join('')}`,
    );
  }
  return result;
}

async function startSampling(one: NodeProcess): Promise<() => Promise<Profile>> {
  const call = await connect(await inspectorOf(one));
  await call('Profiler.enable');
  await call('Profiler.setSamplingInterval', { interval: SAMPLE_US });
  await call('Profiler.start');
  return async () => {
    const found = z.object({ profile }).parse(await call('Profiler.stop'));
    return found.profile;
  };
}

/** The URL of the inspector, which the process prints on standard error. */
async function inspectorOf(one: NodeProcess): Promise<string> {
  process.kill(one.pid, 'SIGUSR1');
  for (const end = performance.now() + TIMEOUT_MS; performance.now() < end; await sleep(20)) {
    const [, url] = /Debugger listening on (ws:\S+)/.exec(one.output()) ?? [];
    if (url) return url;
  }
  throw new Error(`${one.name} did not open its inspector`);
}

type Call = (method: string, params?: object) => Promise<unknown>;

async function connect(url: string): Promise<Call> {
  const socket = new WebSocket(url);
  await new Promise((done, fail) => {
    socket.addEventListener('open', done, { once: true });
    socket.addEventListener('error', fail, { once: true });
  });
  const waiting = new Map<number, (result: unknown) => void>();
  let last = 0;
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = answer.parse(JSON.parse(String(data)));
    waiting.get(id ?? 0)?.(result);
    waiting.delete(id ?? 0);
  });
  return (method, params = {}) => {
    last += 1;
    const id = last;
    socket.send(JSON.stringify({ id, method, params }));
    return new Promise((done) => waiting.set(id, done));
  };
}

function topOf({ nodes, samples, timeDeltas }: Profile): string[] {
  const byId = new Map(nodes.map((node) => [node.id, node.callFrame]));
  const parts = new Map<string, number>();
  const functions = new Map<string, number>();
  let busy = 0;
  for (const [at, id] of samples.entries()) {
    const frame = byId.get(id);
    const time = Math.min(timeDeltas[at] ?? 0, LONGEST_US);
    if (!frame || frame.functionName === '(idle)') continue;
    busy += time;
    const part = partOf(frame.url) || frame.functionName;
    parts.set(part, (parts.get(part) ?? 0) + time);
    const where = `${frame.functionName || '(anonymous)'} ${fileOf(frame.url)}:${frame.lineNumber + 1}`;
    functions.set(where, (functions.get(where) ?? 0) + time);
  }
  const share = (time: number) => `${((100 * time) / busy).toFixed(1)} %`.padStart(7);
  const top = (map: ReadonlyMap<string, number>) =>
    [...map]
      .sort(([, a], [, b]) => b - a)
      .slice(0, TOP)
      .map(([name, time]) => `${share(time)}  ${name}`);
  return [`busy ${(busy / 1e6).toFixed(1)} s`, ...top(parts), '--', ...top(functions)];
}

/** The package or the folder of this repository that a script belongs to. */
function partOf(url: string): string {
  const [, inPackage] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? [];
  if (inPackage) return inPackage;
  if (url.startsWith('node:')) return url.split('/').slice(0, 2).join('/');
  return fileOf(url).split('/').slice(0, 3).join('/');
}

function fileOf(url: string): string {
  return url.replace(/^.*?\/((?:services|gateway|proto|test|deploy|node_modules)\/)/, '$1');
}
