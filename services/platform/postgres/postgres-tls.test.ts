import { mkdtempSync, rmSync } from 'node:fs';
import { chmod, chown, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { unprivileged } from '../../../deploy/local/postgres/programs.ts';
import { type LocalPostgres, startPostgres } from '../../../deploy/local/postgres/start.ts';
import { type Certificate, createAuthority } from '../../../test/kit/certificates.ts';
import { createPool } from './postgres.ts';

const HOUR_MS = 3_600_000;
const ours = createAuthority('ours');
const others = createAuthority('others');
const folder = mkdtempSync(join(tmpdir(), 'rms-postgres-tls-'));
const file = (name: string) => join(folder, name);
let server: LocalPostgres;

beforeAll(async () => {
  await chmod(folder, 0o755);
  await install(ours.issue({ address: '127.0.0.1', name: 'localhost' }));
  await writeFile(file('ours.crt'), ours.cert);
  await writeFile(file('others.crt'), others.cert);
  server = await startPostgres({
    folder: join(folder, 'server'),
    settings: { ssl: 'on', ssl_cert_file: file('server.crt'), ssl_key_file: file('server.key') },
  });
});
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The certificate of the server after it has read its configuration again. */
async function install(certificate: Certificate): Promise<void> {
  const { owner } = await unprivileged();
  for (const [name, text] of [
    ['server.crt', certificate.cert],
    ['server.key', certificate.key],
  ] as const) {
    await writeFile(file(name), text);
    await chmod(file(name), 0o600);
    if (owner !== undefined) await chown(file(name), owner, owner);
  }
}

async function reload(certificate: Certificate): Promise<void> {
  await install(certificate);
  process.kill(server.pid, 'SIGHUP');
}

function urlOf(o: { ca?: string; host?: string; password?: string } = {}): string {
  const url = new URL(server.url);
  if (o.host !== undefined) url.hostname = o.host;
  if (o.password !== undefined) url.password = o.password;
  url.searchParams.set('sslmode', 'verify-full');
  url.searchParams.set('sslrootcert', o.ca ?? file('ours.crt'));
  return url.href;
}

/** Whether a connection is encrypted, or how it failed. */
async function connection(url: string): Promise<unknown> {
  const pool = createPool(url, { max: 1 });
  try {
    const { rows } = await pool.query<{ ssl: boolean }>(
      'select ssl from pg_stat_ssl where pid = pg_backend_pid()',
    );
    return rows[0]?.ssl;
  } catch (error) {
    // By shape: the runtime's errors come from another realm.
    return typeof error === 'object' && error && 'code' in error ? error.code : error;
  } finally {
    await pool.end();
  }
}

/** The server reads the certificate some time after the signal. */
async function eventually(url: string, expected: unknown): Promise<void> {
  for (let tries = 0; tries < 200; tries += 1) {
    if ((await connection(url)) === expected) return;
  }
  expect(await connection(url)).toBe(expected);
}

describe('a database with sslmode=verify-full', () => {
  test('is reached over TLS, by address and by name', async () => {
    expect(await connection(urlOf())).toBe(true);
    expect(await connection(urlOf({ host: 'localhost' }))).toBe(true);
  });

  test('is rejected with a certificate of another authority', async () => {
    expect(await connection(urlOf({ ca: file('others.crt') }))).toBe(
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    );
  });

  test('an error names the setting of the authority', async () => {
    const pool = createPool(urlOf({ ca: file('others.crt') }), { max: 1 });
    await expect(pool.query('select 1')).rejects.toMatchObject({
      message: expect.stringContaining('sslrootcert in DATABASE_URL'),
    });
    await pool.end();
  });

  test('a wrong password is rejected by the server, after TLS', async () => {
    expect(await connection(urlOf({ password: 'wrong' }))).toBe('28P01');
  });

  test('is rejected with another name or an expired certificate; a renewed one is accepted', async () => {
    await reload(ours.issue({ name: 'elsewhere' }));
    await eventually(urlOf(), 'ERR_TLS_CERT_ALTNAME_INVALID');
    const hourAgo = new Date(Date.now() - HOUR_MS);
    const expired = { from: new Date(hourAgo.getTime() - HOUR_MS), to: hourAgo };
    await reload(ours.issue({ address: '127.0.0.1', ...expired }));
    await eventually(urlOf(), 'CERT_HAS_EXPIRED');
    await reload(ours.issue({ address: '127.0.0.1' }));
    await eventually(urlOf(), true);
    // The file of authorities is read for each connection.
    await reload(others.issue({ address: '127.0.0.1' }));
    await writeFile(file('ours.crt'), ours.cert + others.cert);
    await eventually(urlOf(), true);
  });
});
