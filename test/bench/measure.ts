import type { NodeProcess } from '../kit/process.ts';
import type { Figure } from './figure.ts';
import type { Platform } from './platform.ts';
import { cpuByKind, kindsOf } from './postgres-kinds.ts';
import { cpuOfTree, type ProcessTime, readProcesses, residentOf } from './work.ts';

/** Processes of the bench itself: both ends of the webhook path, and the client of the API. */
const ENDS = ['sink', 'publisher', 'load'];
/** The name of the figure. */
export const BY_PROCESS = 'CPU-s per 1,000, by process';
/** Smaller parts are not listed. CPU-s per 1,000. */
const SMALLEST = 0.005;

/** CPU-seconds by process: first those of the product, then the others. */
export interface Work {
  readonly byProcess: ReadonlyMap<string, number>;
  /**
   * CPU of PostgreSQL by kind of process. A backend's kind is its application. The sum is PostgreSQL's part of
   * `byProcess`.
   */
  readonly byKind: ReadonlyMap<string, number>;
  readonly total: number;
}

/**
 * Measures CPU-seconds of PostgreSQL, Kafka, the services and the processes of the bench, and the background load of the
 * machine.
 */
export async function startMeter(
  platform: Platform,
  own: readonly NodeProcess[],
): Promise<() => Promise<Work>> {
  const endSlice = platform.shares.begin();
  const before = readProcesses();
  const earlier = processTimes(platform, own, before);
  return async () => {
    const after = readProcesses();
    endSlice();
    const byProcess = difference(processTimes(platform, own, after), earlier);
    const kinds = await kindsOf(platform.admin);
    const byKind = cpuByKind(platform.postgresPid, before, after, kinds);
    return { byProcess, byKind, total: sumOf(byProcess) };
  };
}

/** Adds up several measurements. */
export function together(works: readonly Work[]): Work {
  const add = (maps: readonly ReadonlyMap<string, number>[]) => {
    const sums = new Map<string, number>();
    for (const [name, value] of maps.flatMap((map) => [...map])) {
      sums.set(name, (sums.get(name) ?? 0) + value);
    }
    return sums;
  };
  const byProcess = add(works.map((work) => work.byProcess));
  return { byProcess, byKind: add(works.map((work) => work.byKind)), total: sumOf(byProcess) };
}

/** CPU-seconds without the processes of the bench itself. */
export function withoutEnds({ byProcess, total }: Work): number {
  return ENDS.reduce((sum, name) => sum - (byProcess.get(name) ?? 0), total);
}

/** CPU-s per 1,000, by process. The parts of the figure leave out the processes of the bench itself. */
export function byProcessFigure(work: Work, count: number): Figure {
  const product = [...work.byProcess].filter(([name]) => !ENDS.includes(name));
  return {
    name: BY_PROCESS,
    value: perThousand(work, count),
    parts: Object.fromEntries(product.map(([name, cpu]) => [name, (cpu / count) * 1_000])),
  };
}

/** CPU-seconds per 1,000 requests or deliveries as text: `webhooks 0.21, postgres 0.30 (webhooks 0.20, …), …`. */
export function perThousand(work: Work, count: number): string {
  const inside = partsOf(work.byKind, count).join(', ');
  return partsOf(work.byProcess, count)
    .map((part) => (part.startsWith('postgres ') ? `${part} (${inside})` : part))
    .join(', ');
}

/** Lists the largest part first. Adds small parts up, so that the list has the same total. */
function partsOf(map: ReadonlyMap<string, number>, count: number): string[] {
  const each = [...map].map(([name, seconds]) => [name, (seconds / count) * 1_000] as const);
  const named = each.filter(([, value]) => value >= SMALLEST).sort(([, a], [, b]) => b - a);
  const rest =
    each.reduce((sum, [, value]) => sum + value, 0) - named.reduce((s, [, v]) => s + v, 0);
  return [...named, ['rest', rest] as const]
    .filter(([name, value]) => name !== 'rest' || Math.abs(value) >= SMALLEST)
    .map(([name, value]) => `${name} ${value.toFixed(2)}`);
}

/** Resident memory of every process except PostgreSQL's. MB. */
export function residentText(processes: readonly NodeProcess[]): string {
  return processes.map(({ name, pid }) => `${name} ${residentOf(pid).toFixed(0)}`).join(', ');
}

function processTimes(
  platform: Platform,
  own: readonly NodeProcess[],
  all: readonly ProcessTime[],
): Map<string, number> {
  return new Map([
    ['postgres', cpuOfTree(platform.postgresPid, all)],
    ['kafka', cpuOfTree(platform.kafkaPid, all)],
    ...[...platform.processes(), ...own].map(
      ({ name, pid }) => [name, cpuOfTree(pid, all)] as const,
    ),
  ]);
}

function difference(after: ReadonlyMap<string, number>, before: ReadonlyMap<string, number>) {
  return new Map([...after].map(([name, value]) => [name, value - (before.get(name) ?? 0)]));
}

function sumOf(map: ReadonlyMap<string, number>): number {
  return [...map.values()].reduce((sum, value) => sum + value, 0);
}
