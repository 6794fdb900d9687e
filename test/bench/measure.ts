import type pg from 'pg';
import type { NodeProcess } from './child.ts';
import type { Platform } from './platform.ts';
import { cpuOfProcess, cpuOfTree, residentOf } from './work.ts';

/** CPU-seconds by process: the product's, then what stands around it. */
export interface Work {
  readonly byProcess: ReadonlyMap<string, number>;
  /** Of PostgreSQL's, by who the backends worked for. */
  readonly byClient: ReadonlyMap<string, number>;
  readonly total: number;
}

/** Counts CPU-seconds of PostgreSQL, Kafka, the services and the processes of the bench itself. */
export async function startMeter(
  platform: Platform,
  own: readonly NodeProcess[],
): Promise<() => Promise<Work>> {
  const before = processTimes(platform, own);
  const clientsBefore = await clientTimes(platform.admin);
  return async () => {
    const byProcess = difference(processTimes(platform, own), before);
    const byClient = difference(await clientTimes(platform.admin), clientsBefore);
    return { byProcess, byClient, total: sumOf(byProcess) };
  };
}

/** Several measurements as one. */
export function together(works: readonly Work[]): Work {
  const add = (maps: readonly ReadonlyMap<string, number>[]) => {
    const sums = new Map<string, number>();
    for (const [name, value] of maps.flatMap((map) => [...map])) {
      sums.set(name, (sums.get(name) ?? 0) + value);
    }
    return sums;
  };
  const byProcess = add(works.map((work) => work.byProcess));
  return { byProcess, byClient: add(works.map((work) => work.byClient)), total: sumOf(byProcess) };
}

/** `webhooks 0.21, postgres 0.30 (webhooks 0.20, …), …`: CPU-seconds for each 1,000 of something. */
export function perThousand(work: Work, count: number): string {
  const each = (map: ReadonlyMap<string, number>) =>
    [...map]
      .filter(([, seconds]) => (seconds / count) * 1_000 >= 0.005)
      .sort(([, a], [, b]) => b - a)
      .map(([name, seconds]) => `${name} ${((seconds / count) * 1_000).toFixed(2)}`);
  return [...each(work.byProcess), `inside postgres: ${each(work.byClient).join(', ')}`].join(', ');
}

/** Resident memory of every process but PostgreSQL's. MB. */
export function residentText(processes: readonly NodeProcess[]): string {
  return processes.map(({ name, pid }) => `${name} ${residentOf(pid).toFixed(0)}`).join(', ');
}

function processTimes(platform: Platform, own: readonly NodeProcess[]): Map<string, number> {
  return new Map([
    ['postgres', cpuOfTree(platform.postgresPid)],
    ['kafka', cpuOfTree(platform.kafkaPid)],
    ...[...platform.processes(), ...own].map(({ name, pid }) => [name, cpuOfTree(pid)] as const),
  ]);
}

/** Backends that ended meanwhile are missed: pools keep theirs. */
async function clientTimes(admin: pg.Client): Promise<Map<string, number>> {
  const { rows } = await admin.query<{ pid: number; client: string }>(
    `select pid, case when backend_type = 'client backend' then application_name else backend_type end as client
     from pg_stat_activity`,
  );
  const times = new Map<string, number>();
  for (const { pid, client } of rows) {
    times.set(client, (times.get(client) ?? 0) + cpuOfProcess(pid));
  }
  return times;
}

function difference(after: ReadonlyMap<string, number>, before: ReadonlyMap<string, number>) {
  return new Map([...after].map(([name, value]) => [name, value - (before.get(name) ?? 0)]));
}

function sumOf(map: ReadonlyMap<string, number>): number {
  return [...map.values()].reduce((sum, value) => sum + value, 0);
}
