import type pg from 'pg';
import type { DestinationStream } from 'pino';
import type { EventBus } from '../services/platform/bus/event-bus.ts';
import { watchRejections } from '../services/platform/database-rejections.ts';
import { identityFromConfig, type ServiceIdentity } from '../services/platform/identity.ts';
import { createLogger, type Logger } from '../services/platform/log.ts';
import { measurePools } from '../services/platform/pools.ts';
import { createPool } from '../services/platform/postgres.ts';
import { startTelemetry, type Telemetry } from '../services/platform/telemetry.ts';
import { createClientIp } from './auth/client-ip.ts';
import { createPartnerTokenCheck } from './auth/partner-tokens.ts';
import { type GatewayConfig, partnerOAuth } from './config.ts';
import type { BodyBudgetSizes } from './http/body-budget.ts';
import type { HttpLimits } from './http/server.ts';
import { mailSettings } from './mail/config.ts';
import { type Mails, startMails } from './mail/start.ts';
import { signInProvider } from './oauth/config.ts';
import { connectServices, targetsOf } from './services.ts';
import { startWorkers } from './workers.ts';

/** The settings of a gateway. The fields below are set only by tests. */
export interface GatewayOptions extends GatewayConfig {
  /** Destination of log lines; standard output when absent. */
  readonly logDestination?: DestinationStream;
  /** Maximum time that a request waits for a shared counter; see `createLeasedLimit`. Milliseconds. */
  readonly limitTimeoutMs?: number;
  /** Other sizes for the budgets of request bodies, and of responses that clients have not read yet. Bytes. */
  readonly bodyBudget?: Partial<BodyBudgetSizes>;
  readonly responseBudget?: Partial<BodyBudgetSizes>;
  readonly httpLimits?: Partial<HttpLimits>;
  /** The event bus for mails; Kafka by default. The stop closes it. */
  readonly bus?: EventBus;
  /** Pauses between the tries of a mail. Milliseconds. */
  readonly mailPausesMs?: readonly number[];
}

/** Timeout of a statement, the same as for calls to services. Milliseconds. */
const STATEMENT_TIMEOUT_MS = 5_000;

export type OpenedParts = Awaited<ReturnType<typeof openParts>>;

/**
 * Creates the parts that must be closed when the gateway stops. Settings are parsed first, so that a wrong one starts
 * nothing.
 */
export async function openParts(o: GatewayOptions) {
  const clientIp = createClientIp(o.TRUSTED_PROXIES ?? []);
  const identity = identityFromConfig(o).as('gateway');
  const logger = createLogger({
    service: 'gateway',
    level: o.LOG_LEVEL,
    pretty: o.LOG_PRETTY,
    ...(o.logDestination && { destination: o.logDestination }),
  });
  const rejections = watchRejections(logger, o.DATABASE_URL);
  const pool = createPool(o.DATABASE_URL, {
    applicationName: 'gateway',
    onServerError: rejections.note,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    max: o.DATABASE_POOL_MAX,
  });
  const partners = partnerOAuth(o);
  const partnerTokens = partners && createPartnerTokenCheck(pool, partners);
  const telemetry = await startTelemetry({
    service: 'gateway',
    metricsPort: o.METRICS_PORT,
    host: o.HOST,
    otlpEndpoint: o.OTEL_EXPORTER_OTLP_ENDPOINT,
  });
  rejections.measure(telemetry.meter);
  measurePools(telemetry, { calls: pool });
  const backend = await connectOrStop(o, { identity, telemetry });
  const mails = await mailsOrStop(o, { identity, logger, telemetry, backend, pool });
  const workers = startWorkers(pool, { logger, meter: telemetry.meter });
  return { clientIp, logger, pool, partnerTokens, telemetry, backend, workers, mails };
}

/** Starts the mails if they are configured. If that fails, closes what was opened before. */
async function mailsOrStop(
  o: GatewayOptions,
  parts: {
    readonly identity: ServiceIdentity;
    readonly logger: Logger;
    readonly telemetry: Telemetry;
    readonly backend: { close(): void };
    readonly pool: pg.Pool;
  },
): Promise<Mails | undefined> {
  const settings = mailSettings(o);
  if (!settings) return undefined;
  const { backend, pool, ...common } = parts;
  try {
    return await startMails({
      ...common,
      settings: { ...o, ...settings },
      databaseUrl: o.DATABASE_URL,
      publicUrl: o.PUBLIC_BASE_URL,
      hasPortal: signInProvider(o) !== undefined,
      webhooksTarget: o.WEBHOOKS_TARGET,
      ...(o.bus && { bus: o.bus }),
      ...(o.mailPausesMs && { mailPausesMs: o.mailPausesMs }),
    });
  } catch (error) {
    backend.close();
    await Promise.all([pool.end(), common.telemetry.stop()]);
    throw error;
  }
}

/** Connects the services; stops the telemetry when a gRPC name is malformed. */
async function connectOrStop(
  o: GatewayOptions,
  common: { readonly identity: ServiceIdentity; readonly telemetry: Telemetry },
) {
  try {
    return connectServices(targetsOf(o), common);
  } catch (error) {
    await common.telemetry.stop();
    throw error;
  }
}
