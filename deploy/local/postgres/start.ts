import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { chmod, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { migrate } from '../../../services/platform/postgres/migrate.ts';
import { roleOf, SCHEMAS } from '../../../services/platform/postgres/schemas.ts';
import { alive, endChild, endProcess } from '../end-process.ts';
import { freePort } from '../free-ports.ts';
import type { Plan } from '../plan.ts';
import { postgresBinaries, runAs, type Unprivileged, unprivileged } from './programs.ts';
import { newTemplate, templateFile, unpackTemplate } from './template.ts';

export interface Database {
  /** URL for the migrator. */
  readonly url: string;
  /** URL for the role of a schema. */
  urlOf(schema: string): string;
  stop(): Promise<void>;
}

/**
 * Starts and migrates the database of the stack: the one of DATABASE_URL (its migrator, with createrole), else a local
 * PostgreSQL.
 */
export async function startDatabase(plan: Plan): Promise<Database> {
  const { databaseUrl } = plan.externalSystems;
  const { databasePassword } = plan.memory.memory;
  const passwords = Object.fromEntries(SCHEMAS.map(({ name }) => [name, databasePassword]));
  if (databaseUrl) await migrate({ databaseUrl, passwords });
  const own = databaseUrl
    ? undefined
    : await startMigrated({
        folder: join(plan.folder, 'postgres'),
        port: plan.ports.postgres,
        // Without --data, the data is deleted at the end.
        durable: plan.options.data !== undefined,
        onRestart: (line) => console.error(line),
        passwords,
        templates: TEMPLATES,
      });
  const url = databaseUrl ?? own?.url ?? '';
  return {
    url,
    urlOf(schema) {
      const address = new URL(url);
      address.username = roleOf(schema);
      address.password = databasePassword;
      return address.href;
    },
    stop: () => own?.stop() ?? Promise.resolve(),
  };
}

/** The cache of templates. It may be deleted at any time. */
const TEMPLATES = join(homedir(), '.cache', 'rms-postgres');

interface MigratedOptions extends Omit<LocalPostgresOptions, 'template'> {
  readonly folder: string;
  /** See {@link migrate}. */
  readonly passwords: Readonly<Record<string, string>>;
  /** The folder of the cache. */
  readonly templates: string;
}

/**
 * Starts a local PostgreSQL with all migrations. New data is a copy of a template if there is one. Otherwise a template is
 * made from the new data, before anything else is written to it.
 */
export async function startMigrated({
  passwords,
  templates,
  ...o
}: MigratedOptions): Promise<Pick<LocalPostgres, 'url' | 'stop'>> {
  const { packageFile } = postgresBinaries();
  const template = await templateFile(templates, { packageFile, schemas: SCHEMAS });
  const data = join(o.folder, 'data');
  const isNew = !existsSync(data);
  const postgres = await startPostgres({ ...o, template });
  await migrate({ databaseUrl: postgres.url, passwords });
  const made =
    isNew && !existsSync(template) && (await newTemplate(template).catch(() => undefined));
  if (!made) return postgres;
  await postgres.stop();
  await made.pack(data).catch(() => {});
  const published = made.publish();
  const { url, stop } = await startPostgres(o);
  return {
    url,
    async stop() {
      await stop();
      await published;
    },
  };
}

const run = promisify(execFile);

const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 10_000;

interface LocalPostgresOptions {
  /** Created when missing; existing data is used again. Contains `data/` and `postgres.log`. */
  readonly folder: string;
  /** A free port when absent. */
  readonly port?: number;
  /** False for tests: no fsync, and any password is accepted. */
  readonly durable?: boolean;
  /** The file of a template, which is used for new data when it exists. */
  readonly template?: string;
  /** Additional settings of the server; they override the defaults. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Added to the environment of the server. */
  readonly env?: Readonly<Record<string, string>>;
  /** Called when the server ends unexpectedly and is started again. When absent, it is not started again. */
  readonly onRestart?: (line: string) => void;
}

export interface LocalPostgres {
  /** URL for `rms_migrator`, which owns the database `rms` and may create databases and roles. */
  readonly url: string;
  readonly port: number;
  /** Id of the current server process. */
  readonly pid: number;
  stop(): Promise<void>;
  /** Sends SIGKILL, for tests of a crash. */
  kill(): Promise<void>;
}

/**
 * Starts a local PostgreSQL on loopback. A server of a killed run in the same folder is stopped first. The server stops
 * with this process; after a crash of this process, the next start stops it.
 */
export async function startPostgres(o: LocalPostgresOptions): Promise<LocalPostgres> {
  const folder = resolve(o.folder);
  const data = join(folder, 'data');
  const durable = o.durable ?? true;
  const identity = await unprivileged();
  mkdirSync(folder, { recursive: true });
  await stopLeftover(data);
  const password = await passwordIn(folder);
  const fresh = !existsSync(join(data, 'PG_VERSION'));
  if (fresh) await initialise({ folder, data, durable, identity, password, template: o.template });

  const port = o.port ?? (await freePort());
  const superuser = { host: '127.0.0.1', port, user: 'postgres', password };
  const log = join(folder, 'postgres.log');
  const startOnce = async (): Promise<ChildProcess> => {
    const { settings, env } = o;
    const server = launch({ folder, data, port, durable, identity, settings, env, log });
    const end = () => void server.kill('SIGQUIT');
    // The server is also stopped when this process exits before the server is ready.
    process.once('exit', end);
    try {
      await untilReady(server, { ...superuser, database: 'postgres' }, log);
      return server;
    } catch (error) {
      end();
      throw error;
    } finally {
      process.removeListener('exit', end);
    }
  };
  const start = () => untilFormerProcessesEnded(startOnce, log);
  const kept = await keepRunning({ name: 'PostgreSQL', start, onRestart: o.onRestart });
  try {
    await prepareDatabase(superuser);
  } catch (error) {
    await kept.end('SIGQUIT', STOP_TIMEOUT_MS);
    throw error;
  }
  // SIGINT is PostgreSQL's fast shutdown: it does not wait for clients.
  return {
    url: `postgres://rms_migrator:${password}@127.0.0.1:${port}/rms`,
    port,
    get pid() {
      return kept.pid;
    },
    stop: () => kept.end('SIGINT', STOP_TIMEOUT_MS),
    kill: () => kept.end('SIGKILL', STOP_TIMEOUT_MS),
  };
}

interface Place {
  readonly folder: string;
  readonly data: string;
  readonly durable: boolean;
  readonly identity: Unprivileged;
}

interface NewPlace extends Place {
  readonly password: string;
  readonly template: string | undefined;
}

/** Creates the data in another folder and renames it, so that an interrupted start leaves no incomplete data. */
async function initialise({ data, template, ...o }: NewPlace): Promise<void> {
  const part = `${data}.part`;
  const empty = async () => {
    await rm(part, { recursive: true, force: true });
    mkdirSync(part, { mode: 0o700 });
    if (o.identity.owner !== undefined) chownSync(part, o.identity.owner, o.identity.owner);
  };
  try {
    await empty();
    const isCopied =
      template !== undefined &&
      existsSync(template) &&
      (await copyTemplate(template, { ...o, data: part }).then(
        () => true,
        () => false,
      ));
    if (!isCopied) {
      await empty();
      await createCluster({ ...o, data: part });
    }
    await rm(data, { recursive: true, force: true });
    await rename(part, data);
  } catch (error) {
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    await rm(part, { recursive: true, force: true });
    throw new Error(`PostgreSQL could not be initialised in ${data}: ${stderr}`, { cause: error });
  }
}

const authOf = (durable: boolean) => (durable ? 'scram-sha-256' : 'trust');

async function createCluster(o: Omit<NewPlace, 'template'>): Promise<void> {
  const passwordFile = join(o.folder, 'password');
  const { owner } = o.identity;
  if (owner !== undefined) chownSync(passwordFile, owner, owner);
  await runAs(o.identity, [
    postgresBinaries().initdb,
    ...['-D', o.data, '-U', 'postgres', '-A', authOf(o.durable), `--pwfile=${passwordFile}`],
    ...['--encoding=UTF8', '--locale=C', '--no-instructions'],
    ...(o.durable ? [] : ['--no-sync']),
  ]);
}

/**
 * Copies a template. It has the authentication and the passwords of the stack that made it, so both are replaced before
 * the server starts.
 */
async function copyTemplate(template: string, o: Omit<NewPlace, 'template'>): Promise<void> {
  await unpackTemplate(template, o.data, o.identity);
  const hba = join(o.data, 'pg_hba.conf');
  const text = await readFile(hba, 'utf8');
  await writeFile(hba, text.replaceAll(/ (trust|scram-sha-256)$/gm, ` ${authOf(o.durable)}`));
  if (!o.durable) return;
  const { initdb, postgres } = postgresBinaries();
  const secret = pg.escapeLiteral(o.password);
  const roles = ['postgres', 'rms_migrator'].map(
    (role) => `alter role ${role} password ${secret};`,
  );
  const statements = ['update pg_authid set rolpassword = null;', ...roles];
  await runAs(o.identity, [postgres, '--single', '-D', o.data, 'postgres'], statements.join('\n'));
  await runAs(o.identity, [initdb, '--sync-only', '-D', o.data]);
}

/**
 * Starts the server, and again for as long as processes of a killed server hold its memory. The server exits then,
 * because they may still write to the data.
 */
async function untilFormerProcessesEnded(
  start: () => Promise<ChildProcess>,
  log: string,
): Promise<ChildProcess> {
  for (const end = Date.now() + START_TIMEOUT_MS; ; await sleep(250)) {
    const logged = (await readFile(log, 'utf8').catch(() => '')).length;
    try {
      return await start();
    } catch (error) {
      const lines = (await readFile(log, 'utf8').catch(() => '')).slice(logged);
      if (!lines.includes('pre-existing shared memory block') || Date.now() > end) throw error;
    }
  }
}

interface Launch extends Place {
  readonly port: number;
  /** The file that receives the output of the server. */
  readonly log: string;
  readonly settings: LocalPostgresOptions['settings'];
  readonly env: LocalPostgresOptions['env'];
}

function launch({ data, durable, identity, port, ...o }: Launch): ChildProcess {
  const settings = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    max_connections: 120,
    shared_buffers: '32MB',
    jit: 'off',
    log_min_messages: 'warning',
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
    ...o.settings,
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const [command = '', ...args] = [
    ...identity.prefix,
    postgresBinaries().postgres,
    '-D',
    data,
    ...flags,
  ];
  const log = openSync(o.log, 'a');
  // Ctrl-C must reach only this process, which stops the server last.
  const server = spawn(command, args, {
    ...identity.options,
    cwd: '/',
    detached: true,
    env: { ...process.env, ...o.env },
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  server.unref();
  return server;
}

async function untilReady(server: ChildProcess, config: pg.ClientConfig, log: string) {
  let failed: Error | undefined;
  server.once('error', (error) => {
    failed = error;
  });
  for (const end = Date.now() + START_TIMEOUT_MS; Date.now() < end; await sleep(25)) {
    if (failed) throw new Error('PostgreSQL could not be started', { cause: failed });
    if (server.exitCode !== null) throw new Error(`PostgreSQL exited during its start, see ${log}`);
    if (await answers(config)) return;
  }
  throw new Error(`PostgreSQL was not ready after ${START_TIMEOUT_MS / 1000} s, see ${log}`);
}

async function answers(config: pg.ClientConfig): Promise<boolean> {
  const client = new pg.Client({ ...config, connectionTimeoutMillis: 1_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

/** Creates role and database. Idempotent, because a run may have been killed between two statements. */
async function prepareDatabase(superuser: pg.ClientConfig & { password: string }): Promise<void> {
  const client = new pg.Client({ ...superuser, database: 'postgres' });
  await client.connect();
  try {
    const roles = await client.query(`select from pg_roles where rolname = 'rms_migrator'`);
    const secret = pg.escapeLiteral(superuser.password);
    if (roles.rowCount === 0) {
      await client.query(`create role rms_migrator login createrole createdb password ${secret}`);
      // Needed to drop a database with open connections.
      await client.query('grant pg_signal_backend to rms_migrator');
    }
    const databases = await client.query(`select from pg_database where datname = 'rms'`);
    if (databases.rowCount === 0) await client.query('create database rms owner rms_migrator');
  } finally {
    await client.end();
  }
}

/** The password; created once and stored next to the data, readable only by us. */
async function passwordIn(folder: string): Promise<string> {
  const file = join(folder, 'password');
  if (existsSync(file)) return (await readFile(file, 'utf8')).trim();
  const password = randomBytes(24).toString('hex');
  await writeFile(file, `${password}\n`, { mode: 0o600 });
  await chmod(file, 0o600);
  return password;
}

/** Stops a server of a killed run, so that its data can be used again. */
async function stopLeftover(data: string): Promise<void> {
  const text = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number(text.split('\n', 1)[0]);
  if (!(pid > 0) || !(await isPostgresOf(pid, data))) return;
  await endProcess(pid, STOP_TIMEOUT_MS);
}

/** Whether a process is the server of this folder. Checked before a signal, because process ids are reused. */
async function isPostgresOf(pid: number, data: string): Promise<boolean> {
  if (!alive(pid)) return false;
  const { stdout } = await run('ps', ['-ww', '-o', 'args=', '-p', String(pid)]).catch(async () => ({
    stdout: (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' '),
  }));
  return stdout.includes(data);
}

/** A server that exits more often than this within a minute is not started again. */
const MAX_RESTARTS = 10;
const WINDOW_MS = 60_000;
/** Time limit for a restart. Ports and files of the exited process may stay in use for a while. Milliseconds. */
const TRY_FOR_MS = 60_000;
const PAUSE_MS = 250;

interface KeptServer {
  readonly pid: number;
  /** Stops it permanently: with `signal`, and with SIGQUIT after `timeoutMs`. May be called twice. */
  end(signal: NodeJS.Signals, timeoutMs: number): Promise<void>;
}

interface KeepOptions {
  readonly name: string;
  /** Starts the server. Resolves when it is ready. Stops it and rejects when it does not become ready. */
  readonly start: () => Promise<ChildProcess>;
  /** Called with messages about restarts. Without it, a server that exits is not started again. */
  readonly onRestart?: ((line: string) => void) | undefined;
}

/**
 * Starts a server and, with `onRestart`, restarts it when it exits unexpectedly, at most ten times per minute. The server
 * stops with this process.
 *
 * @throws the error of the first start.
 */
async function keepRunning(o: KeepOptions): Promise<KeptServer> {
  let server = await o.start();
  let ending = false;
  let restarting: Promise<void> = Promise.resolve();
  let restarts: number[] = [];

  const report = (line: string): void => o.onRestart?.(`${o.name} ${line}`);
  const watch = (): void => {
    const child = server;
    child.once('exit', (code, signal) => {
      if (ending || !o.onRestart) return;
      restarting = restart(`exited unexpectedly (${signal ?? `status ${code}`})`);
    });
  };
  const restart = async (what: string): Promise<void> => {
    const now = performance.now();
    restarts = [...restarts.filter((at) => now - at < WINDOW_MS), now];
    if (restarts.length > MAX_RESTARTS) {
      return report(
        `${what} for the ${restarts.length}th time within a minute: it is not started again`,
      );
    }
    report(`${what}: starting it again`);
    while (!ending) {
      try {
        server = await o.start();
        watch();
        return report(`is ready again after ${Math.round(performance.now() - now)} ms`);
      } catch (error) {
        if (performance.now() - now > TRY_FOR_MS) {
          return report(
            `could not be started again: ${error instanceof Error ? error.message : String(error)}`,
          );
        }
        await sleep(PAUSE_MS);
      }
    }
  };
  const killWithUs = () => server.kill('SIGQUIT');
  process.once('exit', killWithUs);
  watch();

  return {
    get pid() {
      return server.pid ?? 0;
    },
    async end(signal, timeoutMs) {
      ending = true;
      process.removeListener('exit', killWithUs);
      await restarting;
      await endChild(server, { signal, insist: 'SIGQUIT', timeoutMs });
    },
  };
}
