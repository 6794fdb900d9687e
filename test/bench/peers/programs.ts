import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { endChild } from '../../../deploy/local/end-process.ts';
import { freePort } from '../../../deploy/local/free-ports.ts';
import { startPostgres } from '../../../deploy/local/postgres/start.ts';
import { cpuOfTree, memoryOfTree, readProcesses } from '../work.ts';

/** As for our own PostgreSQL, see `platform.ts`. */
const POSTGRES_SETTINGS = { shared_buffers: '256MB', max_wal_size: '2GB', max_connections: '300' };
const START_MS = 120_000;
const ENDING = { signal: 'SIGTERM', insist: 'SIGKILL', timeoutMs: 20_000 } as const;
/** Debian's `rabbitmq-server` in PATH changes to a user who must not read our folder. This one does not. */
const RABBITMQ = '/usr/lib/rabbitmq/bin';

/** A program of a peer is not installed. */
export class PeerUnavailable extends Error {}

/** The processes of a peer. Each has its descendants. */
export interface Programs {
  /** Starts a program of the peer's folder or of PATH. */
  start(name: string, args: readonly string[], env?: Readonly<Record<string, string>>): void;
  postgres(): Promise<string>;
  /** Starts Redis. Returns its port. */
  redis(args?: readonly string[]): Promise<number>;
  /** Starts RabbitMQ. Returns its port. */
  rabbitmq(): Promise<number>;
  /** CPU-seconds of all processes since they started. */
  cpu(): number;
  /** MB. */
  memory(): number;
  stop(): Promise<void>;
}

/** @throws PeerUnavailable when one of the programs is missing. */
export function createPrograms(o: {
  readonly bin: string;
  readonly folder: string;
  readonly needs: readonly string[];
}): Programs {
  const path = [o.bin, RABBITMQ, process.env.PATH].join(delimiter);
  const missing = o.needs.filter(
    (name) => !path.split(delimiter).some((folder) => existsSync(join(folder, name))),
  );
  if (missing.length > 0) throw new PeerUnavailable(`not found: ${missing.join(', ')}`);
  const children: ChildProcess[] = [];
  const pids: number[] = [];
  const stops: (() => Promise<void>)[] = [];
  const kill = () => {
    for (const child of children) child.kill('SIGKILL');
  };
  process.once('exit', kill);

  const start: Programs['start'] = (name, args, env = {}) => {
    const child = spawn(name, args, {
      cwd: o.folder,
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { PATH: path, HOME: o.folder, ...env },
    });
    // A program that cannot be started never listens.
    child.once('error', (error) => process.stderr.write(`${error.message}\n`));
    children.push(child);
    pids.push(child.pid ?? 0);
  };
  return {
    start,
    async postgres() {
      const folder = join(o.folder, 'postgres');
      const { url, pid, stop } = await startPostgres({ folder, settings: POSTGRES_SETTINGS });
      pids.push(pid);
      stops.push(stop);
      return url;
    },
    async redis(args = []) {
      const port = await freePort();
      start('redis-server', ['--port', String(port), '--bind', '127.0.0.1', ...args]);
      await untilListening(port);
      return port;
    },
    async rabbitmq() {
      const [port, distribution, epmd] = [await freePort(), await freePort(), await freePort()];
      const folder = join(o.folder, 'rabbitmq');
      await mkdir(folder, { recursive: true });
      // Without this, RabbitMQ starts a daemon that keeps running.
      start('epmd', ['-port', String(epmd)]);
      start('rabbitmq-server', [], {
        RABBITMQ_NODENAME: `bench${port}@localhost`,
        RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
        RABBITMQ_NODE_PORT: String(port),
        RABBITMQ_DIST_PORT: String(distribution),
        ERL_EPMD_PORT: String(epmd),
        ERL_EPMD_ADDRESS: '127.0.0.1',
        RABBITMQ_MNESIA_BASE: join(folder, 'data'),
        RABBITMQ_LOG_BASE: join(folder, 'log'),
        RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'plugins'),
      });
      await untilListening(port);
      return port;
    },
    cpu() {
      const all = readProcesses();
      return pids.reduce((sum, pid) => sum + cpuOfTree(pid, all), 0);
    },
    memory: () => pids.reduce((sum, pid) => sum + memoryOfTree(pid), 0),
    async stop() {
      for (const child of children.reverse()) await endChild(child, ENDING);
      for (const each of stops) await each();
      process.removeListener('exit', kill);
    },
  };
}

/** @throws Error when nothing listens on the port of loopback in time. */
export async function untilListening(port: number): Promise<void> {
  for (const until = performance.now() + START_MS; performance.now() < until; await sleep(100)) {
    const socket = createConnection({ port, host: '127.0.0.1' });
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return;
  }
  throw new Error(`nothing listens on port ${port} after ${START_MS / 1_000} s`);
}
