import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';

/** A control group with a limit of memory, in which the kernel ends a process as it would in a pod. */
export interface MemoryCgroup {
  /** A shell command that enters it. */
  readonly enter: string;
  /** The most memory that it ever held. Bytes. */
  peakBytes(): number;
  remove(): void;
}

/** Version 2, and the version 1 beside which some machines have it. */
const KINDS = [
  { root: '/sys/fs/cgroup', limit: 'memory.max', peak: 'memory.peak' },
  {
    root: '/sys/fs/cgroup/memory',
    limit: 'memory.limit_in_bytes',
    peak: 'memory.max_usage_in_bytes',
  },
] as const;

/** Makes one; undefined where this machine, or this user, may not. */
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

/** The memory that the manifests give every process. Bytes. */
export function memoryOfManifest(): number {
  const file = new URL('../../deploy/base/process.yaml', import.meta.url);
  const [, mebibytes] = /limits: \{ memory: (\d+)Mi\b/.exec(readFileSync(file, 'utf8')) ?? [];
  if (mebibytes === undefined) throw new Error('the manifests bound no memory');
  return Number(mebibytes) * 1024 * 1024;
}
