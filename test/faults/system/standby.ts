import { execFile } from 'node:child_process';
import { chown, rename, rm, stat, writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { startPostgres } from '../../../deploy/local/postgres/start.ts';
import { waitFor } from '../wait.ts';
import { SETTINGS } from './servers.ts';
import type { System } from './system.ts';

/** An asynchronous standby of the system's database, which streams its log. */
export interface Standby {
  /** Waits until the standby has everything that is committed now. */
  catchUp(): Promise<void>;
  /** Ends the replication. What is committed from now on is not on the standby. */
  disconnect(): Promise<void>;
  /** Listens at the address of the lost primary, and passes connections on to the standby. */
  takeAddress(): Promise<void>;
  /** Number of connections that were passed on. */
  connections(): number;
  /** Ends the recovery. The standby is then a primary on another timeline. */
  promote(): Promise<void>;
  /** Runs a statement as the superuser, in the database of the system. */
  query(text: string): Promise<void>;
  /** Makes the promoted server the system's database, in place of the lost primary, and starts it. */
  replacePrimary(): Promise<void>;
  stop(): Promise<void>;
}

const run = promisify(execFile);

const TIMEOUT_MS = 60_000;

/** Copies the running database, and starts the copy as a standby. */
export async function startStandby({ folder, database }: System): Promise<Standby> {
  const primary = { folder: join(folder, 'postgres'), url: await database.adminUrl() };
  const own = join(folder, 'standby');
  await rm(own, { recursive: true, force: true });
  await copyData(primary, own);
  const server = await startPostgres({ folder: own, settings: SETTINGS });
  const url = new URL(primary.url);
  const primaryPort = Number(url.port);
  url.port = String(server.port);
  const onStandby = <R extends pg.QueryResultRow>(text: string, values: unknown[] = []) =>
    once<R>(url.href, text, values);
  const address = listener(server.port);
  const isTrue = async (text: string, values: unknown[] = []): Promise<boolean> =>
    (await onStandby<{ is: boolean }>(`select ${text} as is`, values))[0]?.is === true;
  return {
    async catchUp() {
      const [now] = await once<{ lsn: string }>(
        primary.url,
        'select pg_current_wal_lsn()::text as lsn',
        [],
      );
      const has = () => isTrue('pg_last_wal_replay_lsn() >= $1::pg_lsn', [now?.lsn]);
      await waitFor(has, { what: 'the standby has the last commits', withinMs: TIMEOUT_MS });
    },
    async disconnect() {
      await onStandby("alter system set primary_conninfo = ''");
      await onStandby('select pg_reload_conf()');
      const isAlone = () => isTrue('not exists (select from pg_stat_wal_receiver)');
      await waitFor(isAlone, { what: 'the replication has ended', withinMs: TIMEOUT_MS });
    },
    takeAddress: () => address.open(primaryPort),
    connections: address.count,
    async promote() {
      await onStandby('select pg_promote(true, 60)');
      await waitFor(() => isTrue('not pg_is_in_recovery()'), {
        what: 'the standby is promoted',
        withinMs: TIMEOUT_MS,
      });
    },
    async query(text) {
      await onStandby(text);
    },
    async replacePrimary() {
      await server.stop();
      await address.close();
      await rm(join(primary.folder, 'data'), { recursive: true });
      await rename(join(own, 'data'), join(primary.folder, 'data'));
      await database.start();
    },
    async stop() {
      await address.close();
      await server.stop();
      await rm(own, { recursive: true, force: true });
    },
  };
}

/** Copies the data of a running server with the password, and adds what a standby needs. */
async function copyData(
  primary: { readonly folder: string; readonly url: string },
  own: string,
): Promise<void> {
  const client = new pg.Client({ connectionString: primary.url });
  await client.connect();
  try {
    await client.query("select pg_backup_start('standby', true)");
    // Files that the server deletes during the copy are not needed. It fails when the standby does not start.
    await run('cp', ['-a', primary.folder, own]).catch(() => {});
    const { rows } = await client.query<{ labelfile: string }>(
      'select labelfile from pg_backup_stop(false)',
    );
    const data = join(own, 'data');
    await rm(join(data, 'postmaster.pid'), { force: true });
    const { uid, gid } = await stat(data);
    const write = async (name: string, text: string): Promise<void> => {
      await writeFile(join(data, name), text);
      await chown(join(data, name), uid, gid);
    };
    const conninfo = `host=127.0.0.1 port=${client.port} user=postgres password=${client.password}`;
    await write('backup_label', rows[0]?.labelfile ?? '');
    await write('standby.signal', '');
    await write('postgresql.auto.conf', `primary_conninfo = '${conninfo}'\n`);
  } finally {
    await client.end();
  }
}

async function once<R extends pg.QueryResultRow>(
  connectionString: string,
  text: string,
  values: unknown[],
): Promise<R[]> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return (await client.query<R>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** Listens at a port of loopback, and passes connections on to another port. */
function listener(to: number) {
  const sockets = new Set<Socket>();
  let passedOn = 0;
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
  };
  const server = createServer((caller) => {
    passedOn += 1;
    const callee = connect(to, '127.0.0.1');
    for (const socket of [caller, callee]) keep(socket);
    caller.pipe(callee).once('close', () => caller.destroy());
    callee.pipe(caller).once('close', () => callee.destroy());
  });
  return {
    count: () => passedOn,
    open: (port: number) =>
      new Promise<void>((done, fail) => {
        server.once('error', fail).listen(port, '127.0.0.1', done);
      }),
    async close(): Promise<void> {
      if (!server.listening) return;
      const closed = new Promise((done) => server.close(done));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
