import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isPortalStale } from '../../portal/build.ts';
import type { ExternalSystems, StartOptions } from './options.ts';
import { openFolder, planOf, type Stopper } from './plan.ts';
import { startDatabase } from './postgres/start.ts';
import { requireNoRunningStack } from './stack-file.ts';
import { step } from './step.ts';

/**
 * Starts the whole system in this process and shows the progress.
 *
 * @throws Error when a stack is already running or a part cannot start. The started parts are stopped again.
 */
export async function startStack(
  options: StartOptions,
  externalSystems: ExternalSystems,
): Promise<Stopper> {
  await requireNoRunningStack(resolve(options.stack));
  const loading = loadParts();
  // A rejection is handled below, unless an earlier error ends the start.
  loading.catch(() => {});
  const started: Stopper[] = [];
  const keep = <P extends Stopper>(part: P): P => {
    started.push(part);
    return part;
  };
  try {
    const { path } = keep(await openFolder(options.data));
    await ensurePortal();
    const plan = await planOf(options, externalSystems, path);
    const database = await step('PostgreSQL', async () => keep(await startDatabase(plan)));
    const { startParts } = await loading;
    await startParts(plan, database, keep);
  } catch (error) {
    // The error of the start is more useful than the errors of the stop.
    await stopAll(started).catch(() => {});
    throw withAdvice(error, options);
  }
  return { stop: () => stopAll(started) };
}

/** Pause before a portion of modules is loaded. Milliseconds. */
const PAUSE_MS = 25;

/**
 * Loads the modules of the parts while PostgreSQL starts. Node loads all modules of one import without a pause, so they
 * are loaded in portions, and the start of PostgreSQL continues between them.
 */
async function loadParts() {
  const portions = [
    () => import('./event-bus.ts'),
    () => import('./running.ts'),
    () => import('./services.ts'),
    () => import('./gateway.ts'),
  ];
  for (const load of portions) {
    await sleep(PAUSE_MS);
    await load();
  }
  await sleep(PAUSE_MS);
  return import('./parts.ts');
}

/** Stops the parts, the last one first. */
async function stopAll(started: Stopper[]): Promise<void> {
  const failures: unknown[] = [];
  for (const part of started.splice(0).reverse()) {
    await part.stop().catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw new AggregateError(failures, 'a part could not be stopped');
}

/** Adds advice to the error for a port that is in use. */
function withAdvice(error: unknown, { port, data }: StartOptions): unknown {
  if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) return error;
  const taken = 'port' in error ? error.port : undefined;
  const kept = data ? ', or change it in local.json of the data folder' : '';
  const advice = taken === port ? ', or name another with --port' : kept;
  return new Error(`port ${taken} is in use: stop the process that uses it${advice}`, {
    cause: error,
  });
}

const BUILD = fileURLToPath(new URL('../../portal/build.ts', import.meta.url));

/**
 * Builds the page of the portal when it is missing or older than its sources. A process of its own builds it, so that
 * this one does not keep the builder in memory.
 *
 * @throws Error with the builder's output.
 */
async function ensurePortal(): Promise<void> {
  if (!isPortalStale()) return;
  await step('Page of the portal', async () => {
    await promisify(execFile)(process.execPath, [BUILD]);
  });
}
