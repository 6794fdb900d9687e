import { mkdir, writeFile } from 'node:fs/promises';
import { RELEASED, UNSTABLE } from '../versions.ts';
import { openapiDocument } from './document.ts';

/**
 * Writes docs/openapi/<version>.json for every version (`npm run docs`). With `--release` it also writes the copies
 * with which a test compares later documents: run it once when a version is released.
 */
const docs = new URL('../../../docs/openapi/', import.meta.url);
const released = new URL('released/', import.meta.url);

await mkdir(docs, { recursive: true });
for (const version of [...RELEASED, UNSTABLE]) {
  const text = `${JSON.stringify(openapiDocument(version), undefined, 2)}\n`;
  await writeFile(new URL(`${version}.json`, docs), text);
  if (process.argv.includes('--release') && version !== UNSTABLE) {
    await mkdir(released, { recursive: true });
    await writeFile(new URL(`${version}.json`, released), text);
  }
}
