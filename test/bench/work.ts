import { readdirSync, readFileSync } from 'node:fs';

/** The kernel counts CPU time in hundredths of a second. */
const TICKS_PER_SECOND = 100;
/** The process flag of a kernel thread (PF_KTHREAD). */
const KERNEL_THREAD = 0x00200000;

/** CPU time of a process at one moment, from the kernel. */
export interface ProcessTime {
  readonly pid: number;
  readonly parent: number;
  /** Start of the process in ticks since boot. Together with the pid it identifies a process. */
  readonly began: number;
  readonly isKernel: boolean;
  /** CPU-seconds (user and system) of the process itself. */
  readonly own: number;
  /** CPU-seconds of its exited children, and of theirs. */
  readonly ended: number;
}

/** Reads all visible processes. Figures that must add up need one common reading. */
export function readProcesses(): ProcessTime[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    const text = read(`/proc/${pid}/stat`);
    return text === undefined ? [] : parseStat(Number(pid), text);
  });
}

/** A process and all its descendants. */
export function treeOf(root: number, all: readonly ProcessTime[]): ProcessTime[] {
  const tree = new Set(all.filter(({ pid }) => pid === root));
  for (let before = -1; before < tree.size; ) {
    before = tree.size;
    const pids = new Set([...tree].map(({ pid }) => pid));
    for (const one of all) if (pids.has(one.parent)) tree.add(one);
  }
  return [...tree];
}

/** CPU-seconds (user and system) that a process and all its descendants have used since they started. */
export function cpuOfTree(root: number, all: readonly ProcessTime[] = readProcesses()): number {
  return treeOf(root, all).reduce((sum, { own, ended }) => sum + own + ended, 0);
}

/** Resident memory of a process and all its descendants. Shared pages count once (PSS). MB. */
export function memoryOfTree(root: number): number {
  const pids = treeOf(root, readProcesses()).map(({ pid }) => pid);
  return pids.reduce((sum, pid) => sum + kilobytes(`/proc/${pid}/smaps_rollup`, 'Pss'), 0) / 1024;
}

/** Resident memory of one process, shared pages included (RSS). MB. */
export function residentOf(pid: number): number {
  return kilobytes(`/proc/${pid}/status`, 'VmRSS') / 1024;
}

/** Parses `/proc/<pid>/stat`. */
export function parseStat(pid: number, text: string): ProcessTime {
  // The second field, the name, may contain any character. The third begins after its last bracket.
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const at = (index: number) => fields[index] ?? 0;
  return {
    pid,
    parent: at(1),
    began: at(19),
    isKernel: (at(6) & KERNEL_THREAD) !== 0,
    own: (at(11) + at(12)) / TICKS_PER_SECOND,
    ended: (at(13) + at(14)) / TICKS_PER_SECOND,
  };
}

function kilobytes(file: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(read(file) ?? '')?.[1] ?? 0);
}

/** Undefined when the process has exited. */
function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
