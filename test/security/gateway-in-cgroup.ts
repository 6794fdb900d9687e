import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ServiceTargets } from '../../gateway/services.ts';
import { makeMemoryCgroup, memoryOfManifest } from './memory-cgroup.ts';

const MAIN = fileURLToPath(new URL('../../gateway/main.ts', import.meta.url));

/** A gateway in a process of its own, with the memory of its manifest. */
export interface GatewayProcess {
  readonly port: number;
  /** Whether the kernel holds it to its memory; where it cannot, `peakBytes` says what it took. */
  readonly isBounded: boolean;
  readonly limitBytes: number;
  peakBytes(): number;
  openFiles(): number;
  isRunning(): boolean;
  /** @returns the exit code; null when a signal ended it. May be called twice. */
  stop(): Promise<number | null>;
}

export async function startGatewayInCgroup(o: {
  readonly databaseUrl: string;
  readonly targets: ServiceTargets;
  readonly serviceToken: string;
  readonly env?: Readonly<Record<string, string>>;
}): Promise<GatewayProcess> {
  const limitBytes = memoryOfManifest();
  const cgroup = makeMemoryCgroup(`gateway-${randomUUID()}`, limitBytes);
  const named = Object.entries(o.targets).map(([name, at]) => [`${name.toUpperCase()}_TARGET`, at]);
  const child = spawn(
    'sh',
    ['-c', `${cgroup?.enter ?? ':'}; exec "$0" "$1"`, process.execPath, MAIN],
    {
      env: {
        PATH: process.env.PATH ?? '',
        ...Object.fromEntries(named),
        DATABASE_URL: o.databaseUrl,
        SERVICE_TOKEN: o.serviceToken,
        PORT: '0',
        METRICS_PORT: '0',
        LOG_LEVEL: 'info',
        TRUSTED_PROXIES: 'none',
        ...o.env,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
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

/** Reads the log until the gateway says where it listens, and lets the rest go. */
async function portOf(log: NodeJS.ReadableStream): Promise<number> {
  const lines = createInterface(log);
  const port = await new Promise<number>((resolve, reject) => {
    lines.on('line', (line) => {
      const event: { msg?: string; port?: number } = JSON.parse(line);
      if (event.msg === 'listening') resolve(event.port ?? 0);
    });
    lines.once('close', () => reject(new Error('the gateway ended before it listened')));
  });
  return port;
}

function peakOf(proc: string): number {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`${proc}/status`, 'utf8')) ?? [];
  return Number(kibibytes) * 1024;
}
