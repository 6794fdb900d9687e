import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { endChild } from '../../../deploy/local/end-process.ts';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import { startPostgres } from '../../../deploy/local/postgres/start.ts';

const run = promisify(execFile);
const MODULE = 'github.com/hookdeck/outpost';
const BUILD_MS = 20 * 60_000;
const START_MS = 120_000;
const ENDING = { signal: 'SIGTERM', insist: 'SIGKILL', timeoutMs: 20_000 } as const;
/** The same limit as in the webhooks service. By default Outpost sends one delivery after another. */
const CONCURRENCY = '512';

/** Outpost cannot be run: a program is missing, or its source cannot be downloaded. */
export class PeerUnavailable extends Error {}

/** A running Outpost with its dependencies. */
export interface Outpost {
  readonly origin: string;
  readonly apiKey: string;
  /** The first processes by name. All their descendants belong to them. */
  readonly pids: ReadonlyMap<string, number>;
  stop(): Promise<void>;
}

/**
 * Builds Outpost from its Go module, once for each version. This repository contains no part of Outpost.
 *
 * @returns the folder of the programs.
 * @throws PeerUnavailable when Go or the module is missing.
 */
export async function buildOutpost(version: string): Promise<string> {
  const bin = join(homedir(), '.cache', 'rms-bench', `outpost-${version}`);
  const programs = ['outpost', 'outpost-server'];
  if (programs.every((name) => existsSync(join(bin, name)))) return bin;
  const packages = programs.map((name) => `${MODULE}/cmd/${name}@${version}`);
  try {
    await run('go', ['install', ...packages], {
      timeout: BUILD_MS,
      env: { ...process.env, GOBIN: bin },
    });
    return bin;
  } catch (error) {
    const { code, stderr } = Object(error);
    const reason = code === 'ENOENT' ? 'go is not installed' : String(stderr || error).trim();
    throw new PeerUnavailable(reason.split('\n').slice(0, 2).join(' '), { cause: error });
  }
}

/** @throws PeerUnavailable when a program that Outpost needs is not installed. */
export async function requirePrograms(): Promise<void> {
  const missing: string[] = [];
  for (const name of ['redis-server', 'rabbitmq-server', 'epmd']) {
    await run('which', [name]).catch(() => missing.push(name));
  }
  if (missing.length > 0) throw new PeerUnavailable(`not installed: ${missing.join(', ')}`);
}

/** Starts PostgreSQL with the same fsync setting, Redis, RabbitMQ, and Outpost with all its parts in one process. */
export async function startOutpost(bin: string, folder: string, topic: string): Promise<Outpost> {
  const [redis = 0, rabbit = 0, distribution = 0, epmd = 0, api = 0] = await freePorts(5);
  const children: ChildProcess[] = [];
  const start = (command: string, args: readonly string[], env: Record<string, string> = {}) => {
    const child = spawn(command, args, {
      cwd: folder,
      stdio: 'ignore',
      env: { PATH: process.env.PATH, HOME: folder, ...env },
    });
    process.once('exit', () => child.kill('SIGKILL'));
    children.unshift(child);
    return child.pid ?? 0;
  };
  const postgres = await startPostgres({
    folder: join(folder, 'postgres'),
    settings: { shared_buffers: '256MB', max_wal_size: '2GB' },
  });
  const stop = async () => {
    for (const child of children) await endChild(child, ENDING);
    await postgres.stop();
  };
  try {
    await mkdir(join(folder, 'rabbitmq'), { recursive: true });
    const pids = new Map([['postgres', postgres.pid]]);
    // Without this, RabbitMQ starts a daemon that keeps running.
    pids.set('epmd', start('epmd', ['-port', String(epmd)]));
    pids.set('redis', start('redis-server', ['--port', String(redis), '--bind', '127.0.0.1']));
    pids.set(
      'rabbitmq',
      start('rabbitmq-server', [], rabbitSettings({ folder, rabbit, distribution, epmd })),
    );
    await Promise.all([untilListening(redis), untilListening(rabbit)]);
    const apiKey = randomBytes(16).toString('hex');
    const settings = {
      API_PORT: String(api),
      PORT: String(api),
      API_KEY: apiKey,
      TOPICS: topic,
      API_JWT_SECRET: randomBytes(16).toString('hex'),
      AES_ENCRYPTION_SECRET: randomBytes(16).toString('hex'),
      REDIS_HOST: '127.0.0.1',
      REDIS_PORT: String(redis),
      POSTGRES_URL: `${postgres.url}?sslmode=disable`,
      RABBITMQ_SERVER_URL: `amqp://guest:guest@127.0.0.1:${rabbit}`,
      DELIVERY_MAX_CONCURRENCY: CONCURRENCY,
      LOG_MAX_CONCURRENCY: CONCURRENCY,
      DESTINATIONS_WEBHOOK_MODE: 'standard',
      DISABLE_TELEMETRY: 'true',
      LOG_LEVEL: 'warn',
      PORTAL_REFERER_URL: 'http://127.0.0.1',
    };
    await run(join(bin, 'outpost'), ['migrate', 'apply', '--yes'], { env: settings });
    pids.set('outpost', start(join(bin, 'outpost-server'), [], settings));
    await untilListening(api);
    return { origin: `http://127.0.0.1:${api}`, apiKey, pids, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function rabbitSettings(o: {
  readonly folder: string;
  readonly rabbit: number;
  readonly distribution: number;
  readonly epmd: number;
}): Record<string, string> {
  const below = join(o.folder, 'rabbitmq');
  return {
    RABBITMQ_NODENAME: `bench${o.rabbit}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(o.rabbit),
    RABBITMQ_DIST_PORT: String(o.distribution),
    ERL_EPMD_PORT: String(o.epmd),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_MNESIA_BASE: join(below, 'data'),
    RABBITMQ_LOG_BASE: join(below, 'log'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(below, 'plugins'),
  };
}

async function untilListening(port: number): Promise<void> {
  for (const until = performance.now() + START_MS; performance.now() < until; await sleep(100)) {
    const socket = createConnection({ port, host: '127.0.0.1' });
    const [isOpen] = await Promise.race([
      once(socket, 'connect').then(() => [true]),
      once(socket, 'close').then(() => [false]),
    ]).catch(() => [false]);
    socket.destroy();
    if (isOpen) return;
  }
  throw new Error(`nothing listens on port ${port} after ${START_MS / 1_000} s`);
}
