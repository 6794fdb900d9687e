import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import type { Logger } from '../services/platform/log.ts';
import { within } from '../services/platform/within.ts';
import { startGrantUsage, startKeyUsage, type Usage } from './auth/key-usage.ts';
import { startVersionUsage, type VersionUsage } from './auth/version-usage.ts';
import { startMaintenance } from './maintenance.ts';
import { type AuditWriter, createAuditWriter } from './tenancy/audit-writer.ts';

export interface GatewayWorkers {
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
export function startWorkers(
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
