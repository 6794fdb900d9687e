import { setTimeout as sleep } from 'node:timers/promises';
import type { DescService, MessageInitShape } from '@bufbuild/protobuf';
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type HandlerContext,
  type Interceptor,
} from '@connectrpc/connect';
import { Health } from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import { ErrorInfoSchema } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { type EventBus, eventsTopic } from '../bus/event-bus.ts';
import { signaturesFromConfig } from '../bus/event-signature.ts';
import { measuredBus } from '../bus/measured-bus.ts';
import { signedBus } from '../bus/signed-bus.ts';
import { rememberDays } from '../consumer/consumer.ts';
import { kafkaBusFromConfig } from '../kafka/kafka.ts';
import { eventsRoutes } from '../outbox/routes.ts';
import { watchRejections } from '../postgres/database-rejections.ts';
import { isOutage } from '../postgres/outage.ts';
import { closePools, measurePools, openPools, type Pools } from '../postgres/pools.ts';
import { callerInterceptor, createAuthorizer } from '../rpc/authorization.ts';
import { callerScope } from '../rpc/caller.ts';
import { callRecorder, rpcAttributes, serverInstrumentation } from '../rpc/instrumentation.ts';
import { type MeshHeader, meshHeaderFromConfig } from '../rpc/mesh.ts';
import { reflectionRoutes } from '../rpc/reflection.ts';
import { type RunningServer, startGrpcServer } from '../rpc/server.ts';
import { identityFromConfig, type ServiceIdentity } from '../security/identity.ts';
import { createLogger, type Logger } from '../telemetry/log.ts';
import { startTelemetry, type Telemetry } from '../telemetry/telemetry.ts';
import { DomainError, isUnavailable, overloaded, reasonOf } from '../values/errors.ts';
import { type Background, startBackground } from './background.ts';
import type { ServiceConfig } from './config.ts';
import { databaseProbe, healthRoutes } from './health.ts';
import { Permits, type Release } from './permits.ts';
import { shutDown } from './shutdown.ts';
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
    bus: o.bus ?? measuredBus(kafkaBusFromConfig(o), telemetry),
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
    meshHeader: meshHeaderFromConfig(o),
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

/** The name of the service that the liveness probe requests. */
export const LIVENESS_SERVICE = 'rms.liveness';

/**
 * Serves `grpc.health.v1` for the liveness probe, on a port of its own and in plain text. The kubelet's gRPC probes
 * support neither TLS nor tokens.
 *
 * The status is always SERVING. It does not depend on the database, because a restart does not repair a database. A
 * process whose event loop hangs sends no response, so the kubelet restarts it.
 *
 * @throws when the port is in use.
 */
export function startLiveness(o: {
  readonly host?: string;
  /** TCP port. With 0 the kernel chooses a free one. */
  readonly port: number;
}): Promise<RunningServer> {
  return startGrpcServer({ ...o, routes: healthRoutes([LIVENESS_SERVICE], async () => true) });
}

interface ServiceServerOptions {
  readonly host?: string;
  readonly port: number;
  readonly routes: (router: ConnectRouter) => void;
  readonly identity: ServiceIdentity;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Whether to serve reflection, for grpcurl and similar tools. */
  readonly reflection: boolean;
  /** The result of the health service. */
  readonly isReady: () => Promise<boolean>;
  /** Whether the server accepts calls. When false, it rejects them with UNAVAILABLE. */
  readonly isOpen: () => boolean;
  /** Maximum number of reads in flight; also the maximum number of other calls in flight. */
  readonly maxCallsInFlight: number;
  /** With it, calls without an identity of the mesh are rejected. */
  readonly meshHeader?: MeshHeader | undefined;
}

/** Starts a gRPC server with the service's own routes and the parts that all services share. */
export function startServiceServer(o: ServiceServerOptions): Promise<RunningServer> {
  const record = callRecorder(o.telemetry.meter, 'server');
  const { identity, logger } = o;
  const authorize = createAuthorizer({
    identity,
    logger,
    meshHeader: o.meshHeader,
    onRejected: (rpc, code) => void record(rpc, code, 0),
  });
  const inFlight = createInFlight(o.maxCallsInFlight);
  const shed = o.telemetry.meter.createCounter('rpc.server.shed', {
    description: 'Calls rejected because too many were in flight',
  });
  const services: DescService[] = [];

  return startGrpcServer({
    ...(o.host !== undefined && { host: o.host }),
    port: o.port,
    logger,
    ...(identity.tls && { tls: identity.tls }),
    interceptors: [
      serverInstrumentation(o.telemetry, record),
      errorInterceptor(logger),
      callerInterceptor(logger),
      inFlight.interceptor,
      callerScope(),
    ],
    authenticate: authorize,
    async admit(context) {
      if (context.service.typeName === Health.typeName) return;
      if (!o.isOpen()) throw new ConnectError('unavailable', Code.Unavailable);
      try {
        inFlight.enter(context);
      } catch (error) {
        const { service, method } = context;
        shed.add(1, rpcAttributes({ service: service.typeName, method: method.name }));
        throw error;
      }
    },
    routes(router) {
      o.routes(router);
      services.push(...new Set(router.handlers.map((handler) => handler.service)));
      const names = services.map((service) => service.typeName);
      healthRoutes(names, o.isReady)(router);
      if (o.reflection) reflectionRoutes([...services, Health])(router);
    },
  });
}

/**
 * Server interceptor: converts the error of a handler to a gRPC status.
 *
 * A DomainError keeps its code, text, reason and field, also when another service threw it. An outage of the database
 * or of another service becomes UNAVAILABLE, and every other error INTERNAL. Both hide the cause from the caller and
 * log it. When the deadline has ended the work of the handler, the status is DEADLINE_EXCEEDED.
 */
export function errorInterceptor(logger: Logger): Interceptor {
  return (next) => async (req) => {
    try {
      return await next(req);
    } catch (error) {
      const rpc = `${req.service.typeName}/${req.method.name}`;
      const status = toStatus(error);
      // The caller disconnected, or its deadline passed, and its statement was cancelled. This is no outage, so do not
      // log it.
      const isStopped = status.code === Code.Unavailable || status.code === Code.Canceled;
      if (req.signal.aborted && isStopped) throw isOverdue(req.signal) ? req.signal.reason : status;
      if (status.code === Code.Unavailable) logger.warn({ err: error, rpc }, 'rpc unavailable');
      if (status.code === Code.Internal) logger.error({ err: error, rpc }, 'rpc failed');
      throw status;
    }
  };
}

function isOverdue({ reason }: AbortSignal): boolean {
  return reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
}

function toStatus(error: unknown): ConnectError {
  if (error instanceof DomainError) {
    const value: MessageInitShape<typeof ErrorInfoSchema> = {
      reason: error.reason,
      field: error.field,
    };
    const info = { desc: ErrorInfoSchema, value };
    const details = error.detail ? [info, error.detail] : [info];
    return new ConnectError(error.message, error.code, undefined, details, error);
  }
  if (error instanceof ConnectError && !error.isWireError) return error;
  if (error instanceof ConnectError && reasonOf(error) !== undefined) return error;
  if (isUnavailable(error) || isOutage(error))
    return new ConnectError('unavailable', Code.Unavailable);
  return new ConnectError('internal error', Code.Internal);
}

/** Limits the number of calls that a server handles at the same time. */
interface InFlight {
  /**
   * Counts a call until its response is sent and its handler has ended. @throws ConnectError OVERLOADED above the
   * limit.
   */
  enter(context: HandlerContext): void;
  /** Notes when handlers end. A handler may continue after its caller has disconnected. */
  readonly interceptor: Interceptor;
}

/** A call that counts as in flight. */
interface Call {
  readonly release: Release;
  isHandling: boolean;
}

/** A call above the limit does not wait, because the connection pools already have queues. */
const NO_QUEUE = { maxWaiting: 0, waitMs: 0 };

/**
 * Limits the number of calls in flight. Reads have their own limit, so that writes that wait for a lock do not block
 * them.
 *
 * @param size maximum number of reads; also the maximum number of other calls.
 */
function createInFlight(size: number): InFlight {
  const reads = new Permits({ size, ...NO_QUEUE });
  const writes = new Permits({ size, ...NO_QUEUE });
  const calls = new WeakMap<AbortSignal, Call>();

  return {
    enter({ method, signal }) {
      const permits: Permits = method.idempotency === Idempotency.NO_SIDE_EFFECTS ? reads : writes;
      const release = permits.tryTake();
      if (!release) throw overloaded();
      const call = { release, isHandling: false };
      calls.set(signal, call);
      const onEnd = (): void => {
        if (!call.isHandling) release();
      };
      if (signal.aborted) onEnd();
      else signal.addEventListener('abort', onEnd, { once: true });
    },
    interceptor: (next) => async (req) => {
      const call = calls.get(req.signal);
      if (!call) return next(req);
      call.isHandling = true;
      try {
        return await next(req);
      } finally {
        call.isHandling = false;
        if (req.signal.aborted) call.release();
      }
    },
  };
}
