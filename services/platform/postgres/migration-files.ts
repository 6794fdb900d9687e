import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { isOlder, RELEASE } from './release.ts';
import type { SchemaDefinition } from './schemas.ts';

/** A numbered SQL file. */
export interface Migration {
  /** The name of the file, as in `schema_migrations`. */
  readonly name: string;
  readonly sha256: string;
  readonly text: string;
  /** The oldest release whose processes work with the schema after this file. */
  readonly fits: string;
}

/**
 * Returns the migrations of a schema in the order in which they are applied: first the platform's for each capability,
 * then its own, by number.
 */
export async function migrationsOf(schema: SchemaDefinition): Promise<Migration[]> {
  const migrations: Migration[] = [];
  for (const capability of schema.capabilities) {
    const folder = new URL(`../migrations/${capability}/`, import.meta.url);
    migrations.push(...(await readMigrations(folder, `platform/${capability}/`)));
  }
  migrations.push(...(await readMigrations(schema.folder, '')));
  return migrations;
}

const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;

async function readMigrations(folder: URL, prefix: string): Promise<Migration[]> {
  // Git has no empty folders, so a schema without migrations has none.
  if (!existsSync(folder)) return [];
  const files = (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort();
  const wrong = files.filter((file, at) => {
    const isRepeated = file.slice(0, 4) === files[at - 1]?.slice(0, 4);
    return isRepeated || !FILE_NAME.test(file);
  });
  if (wrong.length > 0) {
    const rule = 'migrations are named NNNN_words.sql, each number once';
    throw new Error(`${folder.pathname}: ${rule}: rename ${wrong.join(', ')}`);
  }
  return Promise.all(
    files.map(async (file) => {
      const name = `${prefix}${file}`;
      const text = await readFile(new URL(file, folder), 'utf8');
      const sha256 = createHash('sha256').update(text).digest('hex');
      return { name, sha256, text, fits: fitOf(name, text) };
    }),
  );
}

const FITS = /^-- fits: (\d+\.\d+\.\d+)$/m;
const TAKES_AWAY = /^-- takes away: \S/m;
const IS_FIRST = /(?:^|\/)0001_/;

/**
 * Returns the release in the line `-- fits: <release>` of a file. Normally this is the previous release, so that
 * processes of both releases can run side by side. A file that does not fit the previous release must say what it takes
 * away. The first file of a folder creates what no process of another release uses, so it takes nothing away.
 */
function fitOf(name: string, text: string): string {
  const fits = FITS.exec(text)?.[1];
  if (fits === undefined) {
    throw new Error(`${name}: say which release it fits in a line "-- fits: <release>"`);
  }
  if (isOlder(RELEASE, fits)) {
    throw new Error(`${name}: fits ${fits}, but the release of this code is ${RELEASE}`);
  }
  if (fits === RELEASE && !IS_FIRST.test(name) && !TAKES_AWAY.test(text)) {
    throw new Error(
      `${name}: does not fit the release before ${RELEASE}: say why in a line "-- takes away: <what>"`,
    );
  }
  return fits;
}
