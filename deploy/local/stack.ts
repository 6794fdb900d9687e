import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Listr } from 'listr2';
import { connectServices } from '../../gateway/services.ts';
import { startGateway } from '../../gateway/start.ts';
import { staticIdentity } from '../../services/platform/identity.ts';
import { createPool } from '../../services/platform/postgres.ts';
import { startDatabase } from './database.ts';
import { type Demo, runDemo } from './demo/run.ts';
import { startBus } from './event-bus.ts';
import { CALENDARS, gatewayOptions } from './gateway-options.ts';
import { type MemoryFile, openMemory } from './memory.ts';
import type { StartOptions } from './options.ts';
import { publish } from './publish.ts';
import { startLocalServices } from './services.ts';
import { refuseRunningStack } from './stack-file.ts';
import { type TappedBus, tapBus } from './tapped-bus.ts';

/** Something that was started and will be stopped, the last one first. */
interface Stopper {
  stop(): Promise<void>;
}

export type Stoppers = Stopper[];

/** Where the stack meets what exists already; from the environment. */
export interface Surroundings {
  readonly databaseUrl: string | undefined;
  readonly kafkaBrokers: readonly string[];
  /** An OpenID issuer to take instead of the bundled one. */
  readonly oidcIssuer: string | undefined;
  readonly logLevel: string;
}

/** The parts of a stack, as they come up. */
export interface Parts {
  readonly options: StartOptions;
  readonly surroundings: Surroundings;
  readonly folder: string;
  readonly memory: MemoryFile;
  readonly baseUrl: string;
  readonly authUrl: string;
  readonly stoppers: Stoppers;
  readonly startedAt: Date;
}

/**
 * Starts the whole system in this process and tells how far it is.
 *
 * @throws Error when a stack is running already or a part cannot start; what was started is stopped again.
 */
export async function startStack(
  options: StartOptions,
  surroundings: Surroundings,
): Promise<{ stop(): Promise<void> }> {
  const stackFile = resolve(options.stack);
  await refuseRunningStack(stackFile);
  const folder = options.data ? resolve(options.data) : await mkdtemp(join(tmpdir(), 'rms-'));
  const stoppers: Stoppers = [];
  if (!options.data) {
    stoppers.push({ stop: () => rm(folder, { recursive: true, force: true }) });
  }
  const stop = async () => {
    for (const part of stoppers.splice(0).reverse()) await part.stop();
  };
  try {
    const memory = await openMemory(folder, options.port ? { gateway: options.port } : {});
    const { ports } = memory.memory;
    const baseUrl = `http://127.0.0.1:${ports.gateway}`;
    const authUrl = surroundings.oidcIssuer ?? `http://127.0.0.1:${ports.identity}`;
    const startedAt = new Date();
    await startParts({
      options,
      surroundings,
      folder,
      memory,
      baseUrl,
      authUrl,
      stoppers,
      startedAt,
    });
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startParts(parts: Parts): Promise<void> {
  const { memory, options, surroundings, stoppers, folder } = parts;
  const { ports } = memory.memory;
  const started = performance.now();
  const identity = staticIdentity(memory.memory.serviceToken);
  const step = async <T>(title: string, work: (tell: (text: string) => void) => Promise<T>) => {
    const result: T[] = [];
    const task = {
      title,
      task: async (_: unknown, self: { output: string }) => {
        result.push(
          await work((text) => {
            self.output = text;
          }),
        );
      },
    };
    await new Listr([task]).run();
    return result[0] as T;
  };

  const database = await step('PostgreSQL', () =>
    startDatabase(memory.memory, {
      folder,
      durable: options.data !== undefined,
      url: surroundings.databaseUrl,
    }),
  );
  stoppers.push(database);
  const local = await step(options.kafka ? 'Kafka' : 'Event bus', (progress) =>
    startBus({
      kafka: options.kafka,
      brokers: surroundings.kafkaBrokers,
      folder,
      port: ports.kafka,
      logLevel: surroundings.logLevel,
      progress,
    }),
  );
  stoppers.push(local);
  const tapped: TappedBus = tapBus(local.bus);
  const services = await step('Services', () =>
    startLocalServices({
      memory: memory.memory,
      database,
      bus: tapped.bus,
      identity,
      logLevel: surroundings.logLevel,
      calendar: options.calendar,
      ownPorts: Object.entries(ports).flatMap(([name, port]) => (name === 'sink' ? [] : port)),
    }),
  );
  stoppers.push({ stop: () => services.stopAll() });
  const gateway = await step('Gateway', () =>
    startGateway(gatewayOptions(parts, { database, targets: services.targets, identity })),
  );
  stoppers.push(gateway);
  const baseUrlAt: Record<string, string> = {};
  for (const [name, day] of Object.entries(CALENDARS)) {
    const port = ports[name as keyof typeof CALENDARS];
    const listener = await gateway.listenAt(new Date(`${day}T00:00:00Z`), port);
    stoppers.push(listener);
    baseUrlAt[day] = listener.url;
  }
  const { services: clients, close } = connectServices(services.targets, { identity });
  stoppers.push({ stop: async () => close() });
  const pools = {
    gateway: createPool(database.urlOf('gateway'), { max: 4 }),
    commerce: createPool(database.urlOf('returns'), { max: 2 }),
    migrator: createPool(database.url, { max: 2 }),
  };
  stoppers.push({
    stop: async () => void (await Promise.all(Object.values(pools).map((pool) => pool.end()))),
  });
  const demo: Demo = await step(options.demo ? 'Demo data' : 'Sign-in', (tell) =>
    runDemo(parts, { clients, pools, tell }),
  );
  await publish(parts, {
    local,
    tapped,
    services,
    gateway,
    clients,
    pools,
    demo,
    baseUrlAt,
    database,
    seconds: () => (performance.now() - started) / 1000,
  });
}
