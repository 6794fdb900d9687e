import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { SCHEMAS, schemaNamed } from '../../../services/platform/postgres/schemas.ts';
import { postgresBinaries } from './programs.ts';
import { startMigrated } from './start.ts';
import { templateFile } from './template.ts';

describe('template of local PostgreSQL', () => {
  let folder: string;
  let templates: string;
  /** A cache with the template of the start `first`, and what that start had. */
  const made = mkdtempSync(join(tmpdir(), 'rms-template-made-'));
  const first = { id: '', password: '' };
  beforeAll(async () => {
    folder = made;
    templates = join(made, 'cache');
    first.id = await startNew('first', async (url) => {
      first.password = new URL(url).password;
      await query(url, `insert into gateway.users (email) values ('a@example.com')`);
    });
  });
  afterAll(() => rmSync(made, { recursive: true, force: true }));
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'rms-template-'));
    templates = join(folder, 'cache');
    cpSync(join(made, 'cache'), templates, { recursive: true });
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const query = async (url: string, sql: string) => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  };

  /** Starts PostgreSQL with new data and stops it again. Copies of a cluster have the same identifier. */
  const startNew = async (
    name: string,
    work: (url: string) => Promise<void> = async () => {},
    durable = false,
  ): Promise<string> => {
    const passwords = { gateway: `gateway-of-${name}` };
    const at = join(folder, name);
    const { url, stop } = await startMigrated({ folder: at, durable, passwords, templates });
    try {
      await work(url);
      const [row] = await query(url, 'select system_identifier from pg_control_system()');
      return row.system_identifier;
    } finally {
      await stop();
    }
  };

  test('new data is a copy of the first data, without its rows', async () => {
    const id = await startNew('second', async (url) => {
      expect(await query(url, 'select email from gateway.users')).toEqual([]);
    });
    expect(id).toBe(first.id);
  });

  test('each copy has its own passwords', async () => {
    const work = async (url: string) => {
      const address = new URL(url);
      expect(address.password).not.toBe(first.password);
      address.password = first.password;
      await expect(query(address.href, 'select 1')).rejects.toThrow('password');
      address.username = 'rms_gateway';
      address.password = 'gateway-of-first';
      await expect(query(address.href, 'select 1')).rejects.toThrow('password');
      address.password = 'gateway-of-second';
      await query(address.href, 'select 1');
    };
    expect(await startNew('second', work, true)).toBe(first.id);
  });

  test('an incomplete template is not used, and replaced', async () => {
    const [file = ''] = readdirSync(templates);
    truncateSync(join(templates, file), 40_000_000);
    const second = await startNew('second');
    expect(second).not.toBe(first.id);
    expect(await startNew('third')).toBe(second);
  });

  test('two starts at the same time make one template', async () => {
    rmSync(templates, { recursive: true });
    const both = await Promise.all([startNew('second'), startNew('third')]);
    expect(readdirSync(templates)).toEqual([expect.stringMatching(/^[0-9a-f]{32}\.tar$/)]);
    expect(both).toContain(await startNew('fourth'));
  });

  test('existing data does not become a template', async () => {
    expect(await startNew('second')).toBe(first.id);
    rmSync(templates, { recursive: true });
    expect(await startNew('second')).toBe(first.id);
    expect(existsSync(templates)).toBe(false);
  });

  test('the stack starts without a cache', async () => {
    rmSync(templates, { recursive: true });
    writeFileSync(templates, 'a file where the folder would be');
    expect(await startNew('second')).not.toBe(first.id);
  });

  test('another migration is another template', async () => {
    const { packageFile } = postgresBinaries();
    const migrations = join(folder, 'migrations');
    const carts = { ...schemaNamed('carts'), folder: pathToFileURL(`${migrations}/`) };
    cpSync(schemaNamed('carts').folder, migrations, { recursive: true });
    const schemas = SCHEMAS.map((schema) => (schema.name === 'carts' ? carts : schema));
    const name = () => templateFile(templates, { packageFile, schemas });
    const before = await name();
    expect(before).toBe(await templateFile(templates, { packageFile, schemas: SCHEMAS }));
    writeFileSync(join(migrations, '9999_more.sql'), '-- fits: 1.0.0\n');
    expect(await name()).not.toBe(before);
  });
});
