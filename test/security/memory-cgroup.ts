import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';

/** A control group with a memory limit, in which the kernel kills a process as in a pod. */
export interface MemoryCgroup {
  /** A shell command that enters the group. */
  readonly enter: string;
  /** The maximum memory that the group used. Bytes. */
  peakBytes(): number;
  remove(): void;
}

/** Version 2, and version 1, which some machines also have. */
const KINDS = [
  { root: '/sys/fs/cgroup', limit: 'memory.max', peak: 'memory.peak' },
  {
    root: '/sys/fs/cgroup/memory',
    limit: 'memory.limit_in_bytes',
    peak: 'memory.max_usage_in_bytes',
  },
] as const;

/** Creates a control group. Undefined when this machine or this user may not. */
export function makeMemoryCgroup(name: string, bytes: number): MemoryCgroup | undefined {
  for (const { root, limit, peak } of KINDS) {
    const folder = `${root}/${name}`;
    try {
      mkdirSync(folder);
    } catch {
      continue;
    }
    try {
      writeFileSync(`${folder}/${limit}`, String(bytes), { flag: 'r+' });
    } catch {
      rmdirSync(folder);
      continue;
    }
    return {
      enter: `echo $$ > ${folder}/cgroup.procs`,
      peakBytes: () => Number(readFileSync(`${folder}/${peak}`, 'utf8')),
      remove: () => rmdirSync(folder),
    };
  }
  return undefined;
}

/** The memory limit of every process in the manifests. Bytes. */
export function memoryOfManifest(): number {
  const file = new URL('../../deploy/base/process.yaml', import.meta.url);
  const [, mebibytes] = /limits: \{ memory: (\d+)Mi\b/.exec(readFileSync(file, 'utf8')) ?? [];
  if (mebibytes === undefined) throw new Error('the manifests have no memory limit');
  return Number(mebibytes) * 1024 * 1024;
}
