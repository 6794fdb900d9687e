import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { withEventTables } from '../topics/delivery-tables.ts';
import { RELEASED, UNSTABLE } from '../versions.ts';
import { changelogLock, requireChangelogEntry } from './changelog-lock.ts';
import { openapiDocument } from './document.ts';

/**
 * Writes docs/openapi/<version>.json for every version, and the tables of docs/delivery.md (`npm run docs`). With
 * `--release` it also writes copies to `released/`; a test compares later documents with them. Run `--release` once,
 * when a version is released. Fails when the public shape has changed and docs/changelog.md has not.
 */
const docs = new URL('../../../docs/openapi/', import.meta.url);
const released = new URL('released/', import.meta.url);

const lock = new URL('changelog-lock.json', import.meta.url);
const now = changelogLock(await readFile(new URL('../changelog.md', docs), 'utf8'));
requireChangelogEntry(JSON.parse(await readFile(lock, 'utf8')), now);
await writeFile(lock, `${JSON.stringify(now, undefined, 2)}\n`);

const delivery = new URL('../delivery.md', docs);
await writeFile(delivery, withEventTables(await readFile(delivery, 'utf8')));

await mkdir(docs, { recursive: true });
for (const version of [...RELEASED, UNSTABLE]) {
  const text = `${JSON.stringify(openapiDocument(version), undefined, 2)}\n`;
  await writeFile(new URL(`${version}.json`, docs), text);
  if (process.argv.includes('--release') && version !== UNSTABLE) {
    await mkdir(released, { recursive: true });
    await writeFile(new URL(`${version}.json`, released), text);
  }
}
