import { readdirSync, readFileSync } from 'node:fs';

/** The kernel counts in hundredths of a second. */
const TICKS_PER_SECOND = 100;

interface Stat {
  readonly pid: number;
  readonly parent: number;
  /** CPU-seconds of the process itself. */
  readonly own: number;
  /** CPU-seconds of children that ended. */
  readonly ended: number;
}

/** CPU-seconds (user and system) that a process and all below it have used since they began. */
export function cpuOfTree(root: number): number {
  const stats = allStats();
  return [...treeOf(root, stats)].reduce((sum, { own, ended }) => sum + own + ended, 0);
}

/** CPU-seconds of one process alone; 0 when it is gone. */
export function cpuOfProcess(pid: number): number {
  return statOf(pid)?.own ?? 0;
}

/** Resident memory of a process and all below it: shared pages counted once (PSS). MB. */
export function memoryOfTree(root: number): number {
  const pids = [...treeOf(root, allStats())].map(({ pid }) => pid);
  return pids.reduce((sum, pid) => sum + kilobytes(`/proc/${pid}/smaps_rollup`, 'Pss'), 0) / 1024;
}

/** Resident memory of one process, shared pages included (RSS). MB. */
export function residentOf(pid: number): number {
  return kilobytes(`/proc/${pid}/status`, 'VmRSS') / 1024;
}

function treeOf(root: number, stats: readonly Stat[]): Set<Stat> {
  const tree = new Set(stats.filter(({ pid }) => pid === root));
  for (let before = -1; before < tree.size; ) {
    before = tree.size;
    const pids = new Set([...tree].map(({ pid }) => pid));
    for (const stat of stats) if (pids.has(stat.parent)) tree.add(stat);
  }
  return tree;
}

function allStats(): Stat[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => statOf(Number(pid)) ?? []);
}

function statOf(pid: number): Stat | undefined {
  const text = read(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The second field, the name, may hold anything; the third begins behind its last bracket.
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const seconds = (...at: number[]) =>
    at.reduce((sum, index) => sum + (fields[index] ?? 0), 0) / TICKS_PER_SECOND;
  return { pid, parent: fields[1] ?? 0, own: seconds(11, 12), ended: seconds(13, 14) };
}

function kilobytes(file: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(read(file) ?? '')?.[1] ?? 0);
}

/** Undefined when the process is gone. */
function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
