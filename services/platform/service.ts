import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectRouter } from '@connectrpc/connect';
import { type Background, startBackground } from './background.ts';
import { type EventBus, eventsTopic } from './bus/event-bus.ts';
import { type EventSignatures, signaturesFromConfig } from './bus/event-signature.ts';
import { createKafkaBus } from './bus/kafka.ts';
import { securityFromConfig } from './bus/kafka-security.ts';
import { signedBus } from './bus/signed-bus.ts';
import type { ServiceConfig } from './config.ts';
import { rememberDays } from './consumer.ts';
import { watchRefusals } from './database-refusals.ts';
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

/** The parts that a service is built from. */
export interface ServiceRuntime extends Pools {
  readonly name: string;
  /** Signs published events, and passes on only events that one of our processes has signed. */
  readonly bus: EventBus;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  readonly identity: ServiceIdentity;
  /** How long published events are kept for a replay. Days. */
  readonly retentionDays?: number;
}

/** Where and how a service runs. Each service adds its own options. */
export interface ServiceOptions {
  readonly host?: string;
  /** TCP port; 0 takes a free one. */
  readonly port: number;
  readonly metricsPort: number;
  /** See {@link startLiveness}; without it the liveness probe has no port. */
  readonly healthPort?: number;
  readonly databaseUrl: string;
  readonly poolMax?: number;
  /** See `startServiceServer`. */
  readonly maxCallsInFlight?: number;
  readonly bus: EventBus;
  readonly eventSignatures: EventSignatures;
  readonly identity: ServiceIdentity;
  readonly logLevel?: string;
  readonly logPretty?: boolean;
  readonly reflection?: boolean;
  readonly otlpEndpoint?: string;
  /** How long published events are kept. Days. */
  readonly retentionDays?: number;
  /** How long to answer as unready before rejecting calls. Milliseconds. */
  readonly shutdownDelayMs?: number;
  /** Last step of a stop: closes what was opened for this service alone, such as its bus. */
  readonly onStopped?: () => Promise<void>;
}

/** The service's own parts. */
export interface ServiceParts {
  readonly routes: (router: ConnectRouter) => void;
  /** A function is called once the schema fits the code. */
  readonly workers?: readonly Worker[] | (() => Promise<readonly Worker[]>);
  /** Closes what `build` opened, such as clients of other services. */
  readonly close?: () => Promise<void>;
}

export interface RunningService {
  readonly name: string;
  readonly port: number;
  readonly metricsUrl: string;
  /** The bound port of the liveness probe. */
  readonly healthPort?: number;
  /** Stops gracefully; see {@link startService}. May be called twice. */
  stop(): Promise<void>;
}

export interface ServiceDefinition {
  /** Also the name of its schema. */
  readonly name: string;
  /** Whether it has an outbox to relay. */
  readonly publishes: boolean;
  /** How long a transaction may be idle; see `createPool`. Milliseconds. */
  readonly idleInTransactionMs?: number;
  readonly build: (runtime: ServiceRuntime) => ServiceParts | Promise<ServiceParts>;
}

/**
 * Starts a gRPC service: pool, telemetry, server (health, reflection, identity, errors, tracing), then its background
 * work.
 *
 * While the schema does not fit the code, the process runs without serving, logs why, and checks again. `stop` first
 * reports not serving and waits for the configured time. Then it starts no new work and waits up to 20 s for calls and
 * steps in flight. Then it flushes the outbox, releases the leases, and closes pool and telemetry.
 *
 * @throws when a port is taken or the service's own `build` fails. Everything opened before is closed again.
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
  const port = opened.server?.port ?? o.port;
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

/** Opened parts, for a stop to close. */
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
  const level = o.logLevel ?? 'info';
  const logger = createLogger({ service: name, level, pretty: o.logPretty ?? false });
  const telemetry = await startTelemetry({
    service: name,
    metricsPort: o.metricsPort,
    isReady,
    ...(o.host !== undefined && { host: o.host }),
    ...(o.otlpEndpoint !== undefined && { otlpEndpoint: o.otlpEndpoint }),
  });
  const refusals = watchRefusals(logger, o.databaseUrl);
  refusals.measure(telemetry.meter);
  const pools = openPools(o, {
    applicationName: name,
    onServerError: refusals.note,
    ...(idleInTransactionMs !== undefined && { idleInTransactionMs }),
  });
  measurePools(telemetry, pools);
  const bus = signedBus({
    bus: o.bus,
    signatures: o.eventSignatures,
    rememberMs: rememberDays(o.retentionDays) * DAY_MS,
    meter: telemetry.meter,
    logger,
  });
  const runtime = { name, ...pools, bus, logger, telemetry, identity: o.identity.as(name) };
  return o.retentionDays === undefined ? runtime : { ...runtime, retentionDays: o.retentionDays };
}

function isOpen({ background }: Opened): boolean {
  return background?.isRunning() ?? false;
}

/** Whether the service is ready: the schema fits, the database answers, and no stop has begun. */
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
  if (o.healthPort !== undefined) {
    const host = o.host === undefined ? {} : { host: o.host };
    opened.liveness = await startLiveness({ ...host, port: o.healthPort });
  }
  const parts = await definition.build(runtime);
  opened.parts = parts;
  // The port first: health answers from the start, and a taken port is detected at once.
  opened.server = await startServiceServer({
    ...runtime,
    ...(o.host !== undefined && { host: o.host }),
    port: o.port,
    routes(router) {
      parts.routes(router);
      if (definition.publishes)
        eventsRoutes({ ...runtime, topic: eventsTopic(definition.name) })(router);
    },
    reflection: o.reflection ?? false,
    ...(o.maxCallsInFlight !== undefined && { maxCallsInFlight: o.maxCallsInFlight }),
    isOpen: () => isOpen(opened),
    isReady,
  });
  opened.background = await startBackground({
    ...runtime,
    pool: runtime.streamPool,
    writers: [runtime.pool, runtime.backgroundPool],
    publishes: definition.publishes,
    workers: parts.workers ?? [],
    ...(o.retentionDays !== undefined && { retentionDays: o.retentionDays }),
  });
}

const DAY_MS = 24 * 60 * 60 * 1_000;

/** Closing the pool waits for connections in use. A stop limits that wait. Milliseconds. */
const CLOSE_MS = 5_000;

async function close(opened: Opened): Promise<void> {
  const { runtime, o, background, server, liveness, parts } = opened;
  opened.isStopping = true;
  if (server && o.shutdownDelayMs) await sleep(o.shutdownDelayMs);
  await shutDown(runtime.logger, [
    () => Promise.all([background?.stopWorkers(), server?.stop()]),
    () => background?.stopRelay(),
    () => parts?.close?.(),
    () => within(CLOSE_MS, closePools(runtime)),
    () => runtime.telemetry.stop(),
    () => o.onStopped?.(),
    () => liveness?.stop(),
  ]);
}

/** {@link ServiceOptions} from the parsed variables. Opens the Kafka bus, which the stop closes. */
export function optionsFromConfig(config: ServiceConfig): ServiceOptions {
  const logger = createLogger({
    service: 'bus',
    level: config.LOG_LEVEL,
    pretty: config.LOG_PRETTY,
  });
  const bus = createKafkaBus({
    brokers: config.KAFKA_BROKERS,
    clientId: hostname(),
    logger,
    retentionDays: config.RETENTION_DAYS,
    security: securityFromConfig(config),
  });
  return {
    host: config.HOST,
    port: config.PORT,
    metricsPort: config.METRICS_PORT,
    ...(config.HEALTH_PORT !== undefined && { healthPort: config.HEALTH_PORT }),
    databaseUrl: config.DATABASE_URL,
    poolMax: config.DATABASE_POOL_MAX,
    maxCallsInFlight: config.MAX_CALLS_IN_FLIGHT,
    bus,
    eventSignatures: signaturesFromConfig(config),
    identity: identityFromConfig(config),
    logLevel: config.LOG_LEVEL,
    logPretty: config.LOG_PRETTY,
    reflection: config.NODE_ENV !== 'production',
    retentionDays: config.RETENTION_DAYS,
    shutdownDelayMs: config.SHUTDOWN_DELAY_MS,
    onStopped: () => bus.close(),
    ...(config.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined && {
      otlpEndpoint: config.OTEL_EXPORTER_OTLP_ENDPOINT,
    }),
  };
}
