import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import type { Logger } from '../services/platform/log.ts';
import { startGrantUsage, startKeyUsage, type Usage } from './auth/key-usage.ts';
import { startVersionUsage, type VersionUsage } from './auth/version-usage.ts';
import { startMaintenance } from './maintenance.ts';
import { type AuditWriter, createAuditWriter } from './tenancy/audit-writer.ts';

export interface GatewayWorkers {
  readonly keyUsage: Usage;
  readonly grantUsage: Usage;
  readonly versionUsage: VersionUsage;
  readonly audit: AuditWriter;
  /** Writes the buffered rows and stops. */
  stop(): Promise<void>;
}

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
      await Promise.all(
        [keyUsage, grantUsage, versionUsage, maintenance, audit].map((worker) => worker.stop()),
      );
    },
  };
}
