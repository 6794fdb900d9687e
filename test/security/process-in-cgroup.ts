import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { makeMemoryCgroup, memoryOfManifest } from './memory-cgroup.ts';

/** A separate process with the memory limit of its manifest. */
export interface ProcessInCgroup {
  readonly port: number;
  /** Whether the kernel enforces the memory limit. If not, `peakBytes` shows what the process used. */
  readonly isBounded: boolean;
  readonly limitBytes: number;
  peakBytes(): number;
  openFiles(): number;
  isRunning(): boolean;
  /** @returns the exit code, or null when a signal ended the process. May be called twice. */
  stop(): Promise<number | null>;
}

/** @param main the file of a program that logs `listening` with its port. */
export async function startInCgroup(
  main: string,
  env: Readonly<Record<string, string>>,
): Promise<ProcessInCgroup> {
  const limitBytes = memoryOfManifest();
  const cgroup = makeMemoryCgroup(`rms-${randomUUID()}`, limitBytes);
  const child = spawn(
    'sh',
    ['-c', `${cgroup?.enter ?? ':'}; exec "$0" "$1"`, process.execPath, main],
    { env: { PATH: process.env.PATH ?? '', ...env }, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = new Promise<number | null>((resolve) => {
    child.once('close', (code) => {
      cgroup?.remove();
      resolve(code);
    });
  });
  const proc = `/proc/${child.pid}`;
  const port = await portOf(child.stdout);
  return {
    port,
    isBounded: cgroup !== undefined,
    limitBytes,
    peakBytes: () => cgroup?.peakBytes() ?? peakOf(proc),
    openFiles: () => readdirSync(`${proc}/fd`).length,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    stop() {
      child.kill('SIGTERM');
      return ended;
    },
  };
}

/** Reads the log until the program logs its port, and ignores the rest. */
async function portOf(log: NodeJS.ReadableStream): Promise<number> {
  const lines = createInterface(log);
  const port = await new Promise<number>((resolve, reject) => {
    lines.on('line', (line) => {
      const event: { msg?: string; port?: number } = JSON.parse(line);
      if (event.msg === 'listening') resolve(event.port ?? 0);
    });
    lines.once('close', () => reject(new Error('the process exited before it listened')));
  });
  return port;
}

function peakOf(proc: string): number {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`${proc}/status`, 'utf8')) ?? [];
  return Number(kibibytes) * 1024;
}
