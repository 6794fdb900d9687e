import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isPortalStale } from '../../portal/build.ts';
import { step } from './step.ts';

const BUILD = fileURLToPath(new URL('../../portal/build.ts', import.meta.url));

/**
 * Builds the page of the portal when it is missing or older than its sources. A process of its own builds it, so that
 * this one does not keep the builder in memory.
 *
 * @throws Error with the builder's output.
 */
export async function ensurePortal(): Promise<void> {
  if (!isPortalStale()) return;
  await step('Page of the portal', async () => {
    await promisify(execFile)(process.execPath, [BUILD]);
  });
}
