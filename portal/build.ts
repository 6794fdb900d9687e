import { readdirSync, statSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** What the page is made of. The lock file stands for the packages. */
const SOURCES = [
  'portal/src',
  'portal/public',
  'portal/index.html',
  'portal/vite.config.ts',
  'proto/gen/rms',
  'gateway/portal/methods.ts',
  'package-lock.json',
];

const RESULT = 'portal/dist/index.html';

/** Whether the built page is missing, or older than a source. */
export function isPortalStale(): boolean {
  const built = changedAt(join(ROOT, RESULT));
  return SOURCES.some((source) => changedAt(join(ROOT, source)) > built);
}

/**
 * Builds the page of the portal. Takes some seconds. The folder is replaced at the end, so that a gateway never serves
 * half of a build, and two builds at once do no harm.
 *
 * @param folder where to; `portal/dist`, which the gateway serves, when undefined.
 */
async function buildPortal(folder = join(ROOT, 'portal/dist')): Promise<void> {
  // Another value, such as jest's, would build React for development.
  process.env.NODE_ENV = 'production';
  const { build } = await import('vite');
  const outDir = `${folder}.${process.pid}`;
  await build({
    configFile: fileURLToPath(new URL('vite.config.ts', import.meta.url)),
    build: { outDir },
  });
  await rm(folder, { recursive: true, force: true });
  await rename(outDir, folder).catch(async (error: NodeJS.ErrnoException) => {
    await rm(outDir, { recursive: true, force: true });
    // Another build was faster.
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
  });
}

/** The last change below a path; 0 when there is nothing. Milliseconds. */
function changedAt(path: string): number {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat?.isDirectory()) return stat?.mtimeMs ?? 0;
  return Math.max(0, ...readdirSync(path).map((name) => changedAt(join(path, name))));
}

if (import.meta.main) await buildPortal(process.argv[2]);
