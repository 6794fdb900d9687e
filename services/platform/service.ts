import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectRouter } from '@connectrpc/connect';
import { type Background, startBackground } from './background.ts';
import { type EventBus, eventsTopic } from './bus/event-bus.ts';
import { signaturesFromConfig } from './bus/event-signature.ts';
import { kafkaBusFromConfig } from './bus/kafka-from-config.ts';
import { signedBus } from './bus/signed-bus.ts';
import type { ServiceConfig } from './config.ts';
import { rememberDays } from './consumer.ts';
import { watchRejections } from './database-rejections.ts';
import type { RunningServer } from './grpc/server.ts';
import { databaseProbe } from './health.ts';
import { identityFromConfig, type ServiceIdentity } from './identity.ts';
import { startLiveness } from './liveness.ts';
import { createLogger, type Logger } from './log.ts';
import { eventsRoutes } from './outbox/routes.ts';
import { closePools, measurePools, openPools, type Pools } from './pools.ts';
import { startServiceServer } from './service-server.ts';
import { shutDown } from './shutdown.ts';
import { startTelemetry, type Telemetry } from './telemetry.ts';
import { within } from './within.ts';
import type { Worker } from './worker.ts';

/** The parts from which a service is built. */
export interface ServiceRuntime extends Pools {
  readonly name: string;
  /** Signs published events. Delivers only events that one of our processes has signed. */
  readonly bus: EventBus;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  readonly identity: ServiceIdentity;
  /** How long published events are kept for a replay. Days. */
  readonly retentionDays: number;
}

/** The settings of a service. Each service adds its own. */
export interface ServiceOptions extends ServiceConfig {
  /** Kafka when absent. The stop of the service closes the bus. */
  readonly bus?: EventBus;
}

/** The parts that only this service has. */
export interface ServiceParts {
  readonly routes: (router: ConnectRouter) => void;
  /** A function is called when the schema fits the code. */
  readonly workers?: readonly Worker[] | (() => Promise<readonly Worker[]>);
  /** Closes what `build` has opened, such as clients of other services. */
  readonly close?: () => Promise<void>;
}

export interface RunningService {
  readonly name: string;
  readonly port: number;
  readonly metricsUrl: string;
  /** The port of the liveness probe; absent when there is none. */
  readonly healthPort?: number;
  /** Stops gracefully; see {@link startService}. May be called twice. */
  stop(): Promise<void>;
}

export interface ServiceDefinition {
  /** Name of the service, and of its schema. */
  readonly name: string;
  /** Whether the service has an outbox, so that it needs a relay. */
  readonly publishes: boolean;
  /** How long a transaction may have no statement; see `createPool`. Milliseconds. */
  readonly idleInTransactionMs?: number;
  readonly build: (runtime: ServiceRuntime) => ServiceParts | Promise<ServiceParts>;
}

/**
 * Starts a gRPC service: first pools, telemetry and server (health, reflection, identity, errors, tracing), then its
 * background work.
 *
 * While the schema does not fit the code, the process serves no calls, logs why, and checks again.
 *
 * `stop` does these steps. It reports "not serving", and waits for the configured time. It starts no new work, and
 * waits up to 20 s for running calls and steps. It publishes the rest of the outbox and releases the leases. It closes
 * pools and telemetry.
 *
 * @throws when a port is in use or `build` fails. Everything that was opened is closed again.
 */
export async function startService(
  definition: ServiceDefinition,
  o: ServiceOptions,
): Promise<RunningService> {
  let isReady = async (): Promise<boolean> => false;
  const runtime = await openRuntime(definition, o, () => isReady());
  const opened: Opened = { runtime, o, isStopping: false };
  isReady = readinessOf(opened);
  try {
    await startParts(definition, opened, isReady);
  } catch (error) {
    await close(opened);
    throw error;
  }
  const port = opened.server?.port ?? o.PORT;
  const { metricsUrl } = runtime.telemetry;
  runtime.logger.info({ port, metrics: metricsUrl }, 'listening');

  let stopped: Promise<void> | undefined;
  return {
    name: definition.name,
    port,
    metricsUrl,
    ...(opened.liveness && { healthPort: opened.liveness.port }),
    stop() {
      stopped ??= close(opened);
      return stopped;
    },
  };
}

/** The parts that were opened, so that a stop closes them. */
interface Opened {
  readonly runtime: ServiceRuntime;
  readonly o: ServiceOptions;
  isStopping: boolean;
  parts?: ServiceParts;
  background?: Background;
  server?: RunningServer;
  liveness?: RunningServer;
}

async function openRuntime(
  { name, idleInTransactionMs }: ServiceDefinition,
  o: ServiceOptions,
  isReady: () => Promise<boolean>,
): Promise<ServiceRuntime> {
  const identity = identityFromConfig(o).as(name);
  const logger = createLogger({ service: name, level: o.LOG_LEVEL, pretty: o.LOG_PRETTY });
  const telemetry = await startTelemetry({
    service: name,
    metricsPort: o.METRICS_PORT,
    host: o.HOST,
    isReady,
    otlpEndpoint: o.OTEL_EXPORTER_OTLP_ENDPOINT,
  });
  const rejections = watchRejections(logger, o.DATABASE_URL);
  rejections.measure(telemetry.meter);
  const pools = openPools(o, {
    applicationName: name,
    onServerError: rejections.note,
    ...(idleInTransactionMs !== undefined && { idleInTransactionMs }),
  });
  const { pool: calls, backgroundPool: background, streamPool: stream } = pools;
  measurePools(telemetry, { calls, background, stream });
  const retentionDays = o.RETENTION_DAYS;
  const bus = signedBus({
    bus: o.bus ?? kafkaBusFromConfig(o),
    signatures: signaturesFromConfig(o),
    rememberMs: rememberDays(retentionDays) * DAY_MS,
    meter: telemetry.meter,
    logger,
  });
  return { name, ...pools, bus, logger, telemetry, identity, retentionDays };
}

function isOpen({ background }: Opened): boolean {
  return background?.isRunning() ?? false;
}

/** Creates the check whether the service is ready: the schema fits, the database answers, and no stop has begun. */
function readinessOf(opened: Opened): () => Promise<boolean> {
  const { pool, backgroundPool } = opened.runtime;
  const databaseAnswers = databaseProbe(backgroundPool, pool);
  return async () => !opened.isStopping && isOpen(opened) && (await databaseAnswers());
}

async function startParts(
  definition: ServiceDefinition,
  opened: Opened,
  isReady: () => Promise<boolean>,
): Promise<void> {
  const { runtime, o } = opened;
  if (o.HEALTH_PORT !== undefined) {
    opened.liveness = await startLiveness({ host: o.HOST, port: o.HEALTH_PORT });
  }
  const parts = await definition.build(runtime);
  opened.parts = parts;
  // Start the server before the background work. So the health service responds from the beginning, and a port in use
  // fails immediately.
  opened.server = await startServiceServer({
    ...runtime,
    host: o.HOST,
    port: o.PORT,
    routes(router) {
      parts.routes(router);
      if (definition.publishes)
        eventsRoutes({ ...runtime, topic: eventsTopic(definition.name) })(router);
    },
    reflection: o.NODE_ENV !== 'production',
    maxCallsInFlight: o.MAX_CALLS_IN_FLIGHT,
    isOpen: () => isOpen(opened),
    isReady,
  });
  opened.background = await startBackground({
    ...runtime,
    pool: runtime.streamPool,
    writers: [runtime.pool, runtime.backgroundPool],
    publishes: definition.publishes,
    workers: parts.workers ?? [],
  });
}

const DAY_MS = 24 * 60 * 60 * 1_000;

/** Maximum time to close the pools, because that waits for connections in use. Milliseconds. */
const CLOSE_MS = 5_000;

async function close(opened: Opened): Promise<void> {
  const { runtime, o, background, server, liveness, parts } = opened;
  opened.isStopping = true;
  if (server && o.SHUTDOWN_DELAY_MS > 0) await sleep(o.SHUTDOWN_DELAY_MS);
  await shutDown(runtime.logger, [
    () => Promise.all([background?.stopWorkers(), server?.stop()]),
    () => background?.stopRelay(),
    () => parts?.close?.(),
    () => within(CLOSE_MS, closePools(runtime)),
    () => runtime.telemetry.stop(),
    () => runtime.bus.close(),
    () => liveness?.stop(),
  ]);
}
