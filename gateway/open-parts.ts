import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import type { DestinationStream } from 'pino';
import type { EventBus } from '../services/platform/bus/event-bus.ts';
import { watchRejections } from '../services/platform/postgres/database-rejections.ts';
import { measurePools } from '../services/platform/postgres/pools.ts';
import { createPool, type Queryable } from '../services/platform/postgres/postgres.ts';
import { deadline } from '../services/platform/process/deadlines.ts';
import { within } from '../services/platform/process/within.ts';
import { startLoop, type Worker } from '../services/platform/process/worker.ts';
import {
  identityFromConfig,
  type ServiceIdentity,
} from '../services/platform/security/identity.ts';
import { createLogger, type Logger } from '../services/platform/telemetry/log.ts';
import { startTelemetry, type Telemetry } from '../services/platform/telemetry/telemetry.ts';
import { createClientIp } from './auth/client-ip.ts';
import { createPartnerTokenCheck, type PartnerTokenCheck } from './auth/partner-tokens.ts';
import {
  purgeVersionUsage,
  startGrantUsage,
  startKeyUsage,
  startVersionUsage,
  type Usage,
  type VersionUsage,
} from './auth/usage.ts';
import { type GatewayConfig, partnerOAuth } from './config.ts';
import type { BodyBudgetSizes } from './http/body-budget.ts';
import type { HttpLimits } from './http/server.ts';
import { mailSettings } from './mail/config.ts';
import { type Mails, startMails } from './mail/start.ts';
import { purgeMails } from './mail/store.ts';
import { purgeCalls } from './mcp/idempotency.ts';
import { signInProvider } from './oauth/config.ts';
import { partnerIssuer } from './oauth/partners/address.ts';
import { createOwnPartnerTokenCheck } from './oauth/partners/tokens.ts';
import { purgeOneTimeRecords } from './oauth/sign-in/one-time-records.ts';
import { signInFields } from './oauth/tokens/grant-context.ts';
import { createOAuthKeys, type OAuthKeys, purgeOAuthKeys } from './oauth/tokens/keys.ts';
import { purgePortalSessions } from './portal/session/sessions.ts';
import { connectServices, type Services, targetsOf } from './services.ts';
import { type AuditWriter, createAuditWriter } from './tenancy/audit-writer.ts';
import { purgeInvitations } from './tenancy/invitations.ts';
import { closeOpenCalls, purgeAuditDays } from './tenancy/open-calls.ts';

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
const STATEMENT_TIMEOUT_MS = deadline(5_000);

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
    fields: signInFields,
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
  const partnerKeys = o.OAUTH_KEYRING && createOAuthKeys(pool, o.OAUTH_KEYRING, 'partner_keys');
  const partnerTokens = partnerTokensOf(o, pool, partnerKeys);
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
  const common = { clientIp, logger, pool, telemetry, backend, workers, mails };
  return { ...common, partnerKeys, partnerTokens };
}

/**
 * The check of partners' tokens: of the configured issuer, else of our own. Undefined when there is neither, and then
 * every token is rejected.
 */
function partnerTokensOf(
  o: GatewayOptions,
  pool: pg.Pool,
  keys: OAuthKeys | undefined,
): PartnerTokenCheck | undefined {
  const other = partnerOAuth(o);
  if (other) return createPartnerTokenCheck(pool, other);
  const audience = o.PUBLIC_BASE_URL;
  const issuer = partnerIssuer(audience);
  return keys && createOwnPartnerTokenCheck(pool, { issuer, audience, keys });
}

/** Starts the mails if they are configured. If that fails, closes what was opened before. */
async function mailsOrStop(
  o: GatewayOptions,
  parts: {
    readonly identity: ServiceIdentity;
    readonly logger: Logger;
    readonly telemetry: Telemetry;
    readonly backend: { close(): void; readonly services: Services };
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
      returns: backend.services.returns,
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

interface GatewayWorkers {
  readonly keyUsage: Usage;
  readonly grantUsage: Usage;
  readonly versionUsage: VersionUsage;
  readonly audit: AuditWriter;
  /** Writes the buffered rows and stops, in at most 6 s. */
  stop(): Promise<void>;
}

/** Maximum time of `stop`: longer than that of the audit log, so that lost entries are logged. Milliseconds. */
const STOP_MS = 6_000;

/** Starts the background work. Stop it after the last request. */
function startWorkers(
  pool: pg.Pool,
  { logger, meter }: { readonly logger: Logger; readonly meter: Meter },
): GatewayWorkers {
  const keyUsage = startKeyUsage(pool, logger);
  const grantUsage = startGrantUsage(pool, logger);
  const versionUsage = startVersionUsage(pool, logger);
  const maintenance = startMaintenance(pool, logger);
  const audit = createAuditWriter(pool, { logger, meter });
  return {
    keyUsage,
    grantUsage,
    versionUsage,
    audit,
    async stop() {
      const workers = [keyUsage, grantUsage, versionUsage, maintenance, audit];
      const stopped = Promise.all(workers.map((worker) => worker.stop()));
      if (!(await within(STOP_MS, stopped))) {
        logger.warn('background work not stopped in time: its statements may be lost');
      }
    },
  };
}

const EVERY_MS = 10 * 60_000;
/** Counters are kept this long after their window, because the clocks of replicas may differ. Milliseconds. */
const KEEP_COUNTERS_MS = 60 * 60_000;

/** Deletes a batch of old rows. Returns true when there may be more. Safe to run twice. */
type Purge = (db: Queryable) => Promise<unknown>;

/** Maximum number of rows per statement, so that locks and write-ahead log stay small. */
const BATCH = 5_000;

async function purgeCounters(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from rate_limits where key in (
       select key from rate_limits where expire < $1 order by expire limit $2 for update skip locked)`,
    [Date.now() - KEEP_COUNTERS_MS, BATCH],
  );
  return rowCount === BATCH;
}

/** The gateway's role cannot delete rows of the audit log. This function deletes those that are older than 13 months. */
async function purgeAuditLog(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ purged: bigint }>('select purge_audit_log($1) as purged', [
    BATCH,
  ]);
  return Number(rows[0]?.purged) === BATCH;
}

const PURGES: Readonly<Record<string, Purge>> = {
  counters: purgeCounters,
  'open calls': async (db) => (await closeOpenCalls(db, BATCH)) === BATCH,
  'audit days': (db) => purgeAuditDays(db, BATCH),
  'audit log': purgeAuditLog,
  'tool calls': purgeCalls,
  'one-time records': purgeOneTimeRecords,
  keys: purgeOAuthKeys,
  'portal sessions': purgePortalSessions,
  'version usage': purgeVersionUsage,
  mails: purgeMails,
  invitations: purgeInvitations,
};

/**
 * Starts a loop that moves calls without an outcome to the audit log. It deletes old counters, audit entries older than 13
 * months, tool calls older than a day, expired codes, tokens and keys of the sign-in, ended sessions of the portal, counts
 * of version usage, and mails and invitations that ended 30 days ago. Safe to run in several replicas.
 */
export function startMaintenance(db: Queryable, logger: Logger): Worker {
  return startLoop({
    name: 'gateway-maintenance',
    idleMs: EVERY_MS,
    logger,
    step: (signal) => purgeAll(db, logger, signal),
  });
}

/**
 * Runs every purge once. A failed purge is logged and runs again in the next round, after ten minutes; it does not
 * stop the others.
 */
export async function purgeAll(
  db: Queryable,
  logger: Logger,
  signal: AbortSignal,
): Promise<'idle'> {
  for (const [purge, work] of Object.entries(PURGES)) {
    try {
      while (!signal.aborted && (await work(db)) === true);
    } catch (error) {
      logger.error({ err: error, purge }, 'purge failed');
    }
  }
  return 'idle';
}
