import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { until } from '../../../test/kit/until.ts';
import { type LocalPostgres, startPostgres } from './start.ts';

describe('local PostgreSQL', () => {
  let folder: string;
  let postgres: LocalPostgres | undefined;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'rms-postgres-'));
  });
  afterEach(async () => {
    await postgres?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const query = async (url: string, sql: string) => {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  };
  const start = async (port?: number) => {
    postgres = await startPostgres({ folder, ...(port === undefined ? {} : { port }) });
    return postgres;
  };

  test('the migrator owns the database, may create roles, and is not a superuser', async () => {
    const { url } = await start();
    const sql = `select rolsuper, rolcreaterole, rolcreatedb from pg_roles where rolname = current_user`;
    expect(await query(url, sql)).toEqual([
      { rolsuper: false, rolcreaterole: true, rolcreatedb: true },
    ]);
    const wrong = new URL(url);
    wrong.password = 'wrong';
    await expect(query(wrong.href, 'select 1')).rejects.toThrow('password');
  });

  test('committed data survives a SIGKILL, and the URL stays the same', async () => {
    const first = await start();
    await query(first.url, 'create table kept as select 42 as answer');
    await first.kill();
    const second = await start(first.port);
    expect(second.url).toBe(first.url);
    expect(await query(second.url, 'select answer from kept')).toEqual([{ answer: 42 }]);
  });

  test('a start waits for processes that a killed server left behind', async () => {
    const { url, kill, port } = await start();
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => {});
    await client.connect();
    const [backend] = (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows;
    const left = backend?.pid ?? 0;
    process.kill(left, 'SIGSTOP');
    let second: Promise<LocalPostgres>;
    try {
      await kill();
      second = start(port);
      second.catch(() => {});
      const log = join(folder, 'postgres.log');
      await until(() => readFileSync(log, 'utf8').includes('pre-existing shared memory block'));
    } finally {
      process.kill(left, 'SIGCONT');
    }
    expect(await query((await second).url, 'select 1 as one')).toEqual([{ one: 1 }]);
    await client.end().catch(() => {});
  });

  test('a server that ends unexpectedly is started again only with onRestart', async () => {
    const lines: string[] = [];
    const kept = await startPostgres({ folder, onRestart: (line) => lines.push(line) });
    postgres = kept;
    await query(kept.url, 'create table kept as select 42 as answer');
    const { pid } = kept;
    process.kill(pid, 'SIGKILL');
    await until(() => lines.length === 2);
    expect(lines).toEqual([
      'PostgreSQL exited unexpectedly (SIGKILL): starting it again',
      expect.stringMatching(/^PostgreSQL is ready again after \d+ ms$/),
    ]);
    expect(kept.pid).not.toBe(pid);
    expect(await query(kept.url, 'select answer from kept')).toEqual([{ answer: 42 }]);
    await kept.stop();
    expect(lines).toHaveLength(2);
  });

  test('a server of a killed run is stopped first', async () => {
    const script = `
      import { startPostgres } from ${JSON.stringify(new URL('./start.ts', import.meta.url).href)};
      const { url, pid } = await startPostgres({ folder: ${JSON.stringify(folder)} });
      process.stdout.write(JSON.stringify({ url, pid }));
      setInterval(() => {}, 1_000);`;
    const run = spawn('node_modules/.bin/node', ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    let output = '';
    run.stdout.on('data', (chunk) => {
      output += chunk;
    });
    await until(() => output.endsWith('}'));
    const left = JSON.parse(output);
    const gone = new Promise((done) => run.once('exit', done));
    run.kill('SIGKILL');
    await gone;
    expect(await query(left.url, 'select 1 as alive')).toEqual([{ alive: 1 }]);

    const next = await start();
    expect(next.pid).not.toBe(left.pid);
    await expect(query(left.url, 'select 1')).rejects.toThrow();
    expect(await query(next.url, 'select 1 as alive')).toEqual([{ alive: 1 }]);
  });
});
