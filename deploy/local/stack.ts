import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Database, startDatabase } from './database.ts';
import { isFree } from './free-ports.ts';
import { jwksUrlOf } from './issuer.ts';
import { openMemory } from './memory.ts';
import type { StartOptions } from './options.ts';
import type { ExternalSystems, Plan, Stopper } from './parts.ts';
import { refuseRunningStack } from './stack-file.ts';
import { step } from './steps.ts';

/**
 * Starts the whole system in this process and shows the progress.
 *
 * @throws Error when a stack is running already or a part cannot start; what was started is stopped again.
 */
export async function startStack(
  options: StartOptions,
  externalSystems: ExternalSystems,
): Promise<Stopper> {
  await refuseRunningStack(resolve(options.stack));
  const stoppers: Stopper[] = [];
  const stop = async () => {
    const failures: unknown[] = [];
    for (const part of stoppers.splice(0).reverse()) {
      await part.stop().catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) throw new AggregateError(failures, 'a part could not be stopped');
  };
  try {
    const plan = await planOf(options, externalSystems, stoppers);
    // Creating the database and loading the modules take seconds each, so they run at the same time.
    const [database, { startSystem }] = await Promise.all([
      startOwnDatabase(plan),
      import('./system.ts'),
    ]);
    await startSystem(plan, database);
    return { stop };
  } catch (error) {
    // The error of the start is more useful than errors of the stop.
    await stop().catch(() => {});
    throw withAdvice(error, options);
  }
}

async function startOwnDatabase(plan: Plan): Promise<Database> {
  const { options, externalSystems, folder, memory, stoppers } = plan;
  const database = await step('PostgreSQL', () =>
    startDatabase(memory.memory, {
      folder,
      durable: options.data !== undefined,
      url: externalSystems.databaseUrl,
    }),
  );
  stoppers.push(database);
  return database;
}

/** Adds advice to the error for a port that is in use. */
function withAdvice(error: unknown, { port, data }: StartOptions): unknown {
  if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) return error;
  const taken = 'port' in error ? error.port : undefined;
  const kept = data ? ', or change it in local.json of the data folder' : '';
  const advice = taken === port ? ', or name another with --port' : kept;
  return new Error(`port ${taken} is taken: end what uses it${advice}`, { cause: error });
}

/** Plans folder, ports and URLs. Without `--data`, a new folder is used and deleted at the end. */
async function planOf(
  options: StartOptions,
  externalSystems: ExternalSystems,
  stoppers: Stopper[],
): Promise<Plan> {
  const startedAt = new Date();
  const folder = options.data ? resolve(options.data) : await mkdtemp(join(tmpdir(), 'rms-'));
  if (!options.data) {
    stoppers.push({ stop: () => rm(folder, { recursive: true, force: true }) });
  }
  const memory = await openMemory(folder, options.port ? { gateway: options.port } : {});
  const { ports } = memory.memory;
  // A second stack on the same data would stop the database of the first one, as if it were left from a crash.
  if (!(await isFree(ports.control))) {
    throw new Error(`a stack is running already on the data in ${folder}: stop it first`);
  }
  const authUrl = externalSystems.oidcIssuer ?? `http://127.0.0.1:${ports.identity}`;
  const jwksUrl = externalSystems.oidcIssuer ? await jwksUrlOf(authUrl) : `${authUrl}/jwks`;
  return {
    options,
    externalSystems,
    folder,
    memory,
    baseUrl: `http://127.0.0.1:${ports.gateway}`,
    authUrl,
    jwksUrl,
    startedAt,
    stoppers,
  };
}
