import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { migrationsOf } from '../../../services/platform/postgres/migration-files.ts';
import type { SchemaDefinition } from '../../../services/platform/postgres/schemas.ts';
import type { Unprivileged } from './programs.ts';

/** The code that decides what is in a new cluster, besides the migrations. */
const CODE = [
  './start.ts',
  './programs.ts',
  './template.ts',
  '../../../services/platform/postgres/migrate.ts',
  '../../../services/platform/postgres/schemas.ts',
];

/**
 * The template for new clusters: an archive of a migrated cluster without rows. Its name is a hash of everything that
 * decides its content, so a change uses another template.
 *
 * @param packageFile the package.json of the PostgreSQL programs; it has their version and platform.
 */
export async function templateFile(
  folder: string,
  o: { readonly packageFile: string; readonly schemas: readonly SchemaDefinition[] },
): Promise<string> {
  const code = CODE.map((file) => readFile(new URL(file, import.meta.url)));
  const texts = await Promise.all([readFile(o.packageFile), ...code]);
  const migrations = await Promise.all(o.schemas.map(migrationsOf));
  const names = migrations.flatMap((list, at) =>
    list.map(({ name, sha256 }) => `${o.schemas[at]?.name} ${name} ${sha256}\n`),
  );
  const hash = createHash('sha256');
  for (const text of [...texts, ...names]) hash.update(text);
  return join(folder, `${hash.digest('hex').slice(0, 32)}.tar`);
}

/**
 * Unpacks a template into an empty folder.
 *
 * @throws Error when there is none, or when it is damaged. It is deleted then.
 */
export async function unpackTemplate(
  file: string,
  folder: string,
  as: Unprivileged,
): Promise<void> {
  // Opened here, because the account of the server may not read the cache.
  const archive = await open(file);
  try {
    await tar(['-xf', '-', '-C', folder], [archive.fd, 'ignore', 'ignore'], as);
    // To tar, a file of zeros is an archive without files.
    await stat(join(folder, 'PG_VERSION'));
    await utimes(file, new Date(), new Date());
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  } finally {
    await archive.close();
  }
}

/** A template that is being written; other starts do not see it. */
export interface NewTemplate {
  /** Adds the files of a stopped server. @throws Error when the disk is full. */
  pack(data: string): Promise<void>;
  /** Makes the template visible if `pack` succeeded, and deletes old ones. Never rejects. */
  publish(): Promise<void>;
}

/** Begins a template. @throws Error when the cache cannot be written. */
export async function newTemplate(file: string): Promise<NewTemplate> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  // Each process writes its own file, so that two starts at the same time do not disturb each other.
  const part = `${file}.${process.pid}`;
  const archive = await open(part, 'w', 0o600);
  let isComplete = false;
  return {
    async pack(data) {
      await tar(['-cf', '-', '-C', data, '.'], ['ignore', archive.fd, 'ignore']);
      isComplete = true;
    },
    async publish() {
      try {
        // Without this, the name could survive a power failure and the content not.
        await archive.sync();
        if (isComplete) await rename(part, file);
        await prune(dirname(file));
      } catch {
        // The next start on fresh data tries again.
      } finally {
        await archive.close();
        await rm(part, { force: true });
      }
    },
  };
}

/** Clones of the project may have different migrations, so more than one template is kept. Each has about 75 MB. */
const KEPT = 3;

/** Deletes all but the templates that were used last, and what killed starts left. */
async function prune(folder: string): Promise<void> {
  const files = (await readdir(folder)).map((name) => join(folder, name));
  const used = await Promise.all(
    files.map(async (file) => ({ file, at: (await stat(file)).mtimeMs })),
  );
  const old = used.sort((a, b) => b.at - a.at).slice(KEPT);
  await Promise.all(old.map(({ file }) => rm(file, { force: true })));
}

async function tar(
  args: readonly string[],
  stdio: ['ignore' | number, 'ignore' | number, 'ignore'],
  as: Unprivileged = { prefix: [], options: {} },
): Promise<void> {
  const [command = '', ...rest] = [...as.prefix, 'tar', ...args];
  const [code] = await once(spawn(command, rest, { ...as.options, cwd: '/', stdio }), 'exit');
  if (code !== 0) throw new Error(`tar ended with status ${code}`);
}
