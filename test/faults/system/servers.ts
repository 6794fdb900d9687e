import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { alive } from '../../../deploy/local/end-process.ts';
import { type LocalKafka, startKafka } from '../../../deploy/local/kafka/start.ts';
import { type LocalPostgres, startPostgres } from '../../../deploy/local/postgres/start.ts';
import { waitFor } from '../wait.ts';
import { followCrashes } from './server-log.ts';

/** A PostgreSQL that a trial may kill. It collects the statistics that some trials read. */
export interface DatabaseServer {
  url(): string;
  /** The URL of the superuser, for the same database. */
  adminUrl(): Promise<string>;
  pid(): number;
  /** Sends SIGKILL to the server and all its processes, as if the machine had crashed. */
  crash(): Promise<void>;
  /**
   * Starts the server again with its data. Resolves when it is ready.
   *
   * @param env added to its environment until the next start.
   */
  start(env?: Readonly<Record<string, string>>): Promise<void>;
  /** Processes that a signal ended since the last call, except those that the suite has killed. */
  deaths(): Promise<string[]>;
  stop(): Promise<void>;
}

const ORPHANS_MS = 60_000;

/** The settings of the database server, and of its standby. */
export const SETTINGS = {
  shared_preload_libraries: 'pg_stat_statements',
  max_connections: '200',
  // When a row fails, its log shows the slow statements.
  log_lock_waits: 'on',
  log_min_duration_statement: '1s',
  // With asynchronous commits a kill could lose acknowledged data.
  synchronous_commit: 'on',
  full_page_writes: 'on',
  // For a standby that was just copied.
  wal_keep_size: '256MB',
};

/** Starts a server that writes to the disk before it acknowledges, as in production. */
export async function startDatabaseServer(folder: string): Promise<DatabaseServer> {
  const settings = SETTINGS;
  let server: LocalPostgres = await startPostgres({ folder, settings });
  const { port } = server;
  const adminUrl = async (): Promise<string> => {
    const password = (await readFile(join(folder, 'password'), 'utf8')).trim();
    return `postgres://postgres:${password}@127.0.0.1:${port}/rms`;
  };
  const start: DatabaseServer['start'] = async (env = {}) => {
    const restart = () => startPostgres({ folder, port, settings, env });
    // On a busy machine the first start may take too long.
    server = await restart().catch(restart);
  };
  const deaths = followCrashes(join(folder, 'postgres.log'));
  await keepStatistics(await adminUrl());
  return {
    url: () => server.url,
    adminUrl,
    pid: () => server.pid,
    deaths: deaths.take,
    async crash() {
      await deaths.look();
      const children = await childrenOf(server.pid);
      const gone = server.kill();
      for (const pid of children) killIfAlive(pid);
      await gone;
      await waitFor(() => !children.some(alive), {
        what: 'the processes of PostgreSQL are gone',
        withinMs: ORPHANS_MS,
      });
      await deaths.skip();
    },
    start,
    stop: () => server.stop(),
  };
}

/** Installs statistics about the buffers that each statement reads. */
async function keepStatistics(adminUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    await client.query('create extension if not exists pg_stat_statements');
  } finally {
    await client.end();
  }
}

async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return text.split(' ').map(Number).filter(Boolean);
}

function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has exited.
  }
}

/** One broker that a trial may kill or wipe. */
export interface Broker {
  readonly brokers: readonly string[];
  crash(): Promise<void>;
  start(): Promise<void>;
  /** Kills the broker and deletes its data. The next start is that of an empty cluster. */
  wipe(): Promise<void>;
  stop(): Promise<void>;
}

export async function startBroker(folder: string): Promise<Broker> {
  let kafka: LocalKafka = await startKafka({ folder });
  const { brokers } = kafka;
  let isEmpty = false;
  /** On a busy machine the first start may take too long. */
  const again = async (): Promise<void> => {
    await kafka.kill(0);
    await kafka.restart(0);
  };
  return {
    brokers,
    crash: () => kafka.kill(0),
    async start() {
      // A new handle formats the empty folder. The ports are stored beside it.
      if (isEmpty) kafka = await startKafka({ folder });
      else await kafka.restart(0).catch(again);
      isEmpty = false;
    },
    async wipe() {
      await kafka.kill(0);
      await kafka.stop();
      await rm(join(folder, 'broker-1'), { recursive: true, force: true });
      isEmpty = true;
    },
    stop: () => kafka.stop(),
  };
}
