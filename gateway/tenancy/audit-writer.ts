import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Meter } from '@opentelemetry/api';
import type { Logger } from '../../services/platform/log.ts';
import { isOutage } from '../../services/platform/outage.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { type AuditEntry, recordAudit, recordAudits } from './audit.ts';

/** Adds entries to the audit log, many in one statement. */
export interface AuditWriter {
  /** Resolves once the entry is committed. Rejects when it cannot be written. */
  write(entry: AuditEntry): Promise<void>;
  /** Writes the entry within a second. During a database outage it is kept in memory. */
  writeSoon(entry: AuditEntry): void;
  /** Writes the buffered entries and stops. */
  stop(): Promise<void>;
}

interface Waiting {
  readonly entry: AuditEntry;
  resolve(): void;
  reject(error: unknown): void;
}

/** Maximum delay of an entry of `writeSoon`. Milliseconds. */
const SOON_MS = 1_000;
const MAX_BATCH = 500;
/** Maximum number of entries of `writeSoon` that are kept during an outage. More are lost, and counted as lost. */
const MAX_KEPT = 10_000;

/**
 * Entries of one turn of the event loop are written with one statement. Entries that arrive while a statement is
 * running are written with the next one. So a busy gateway needs one statement for many entries.
 */
export function createAuditWriter(
  db: Queryable,
  { logger, meter }: { readonly logger: Logger; readonly meter: Meter },
): AuditWriter {
  const outcomes = createOutcomes(logger, meter);
  let awaited: Waiting[] = [];
  let soon: AuditEntry[] = [];
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const drain = async (): Promise<void> => {
    await nextTurn();
    do {
      const callers = awaited.slice(0, MAX_BATCH);
      const others = soon.slice(0, MAX_BATCH - callers.length);
      awaited = awaited.slice(callers.length);
      soon = soon.slice(others.length);
      soon = [...(await writeBatch(db, outcomes, { callers, others })), ...soon];
      outcomes.lost(soon.splice(MAX_KEPT));
    } while (awaited.length > 0);
  };
  const start = (): void => {
    running ??= drain().finally(() => {
      running = undefined;
      if (awaited.length > 0) start();
      else if (soon.length > 0) startSoon();
    });
  };
  const startSoon = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      start();
    }, SOON_MS).unref();
  };

  return {
    write(entry) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      awaited.push({ entry, resolve, reject });
      start();
      return promise;
    },
    writeSoon(entry) {
      soon.push(entry);
      outcomes.lost(soon.splice(MAX_KEPT));
      startSoon();
    },
    async stop() {
      await running;
      for (let left = soon.length; left > 0; left -= MAX_BATCH) {
        start();
        await running;
      }
      clearTimeout(timer);
      timer = undefined;
      outcomes.lost(soon.splice(0));
    },
  };
}

/** Counts what became of entries. */
function createOutcomes(logger: Logger, meter: Meter) {
  const entries = meter.createCounter('audit.entries', {
    description: 'Entries of the audit log: written, failed (the write was refused), lost',
  });
  return {
    written: (count: number) => entries.add(count, { outcome: 'written' }),
    failed: (count: number) => entries.add(count, { outcome: 'failed' }),
    lost(lost: readonly AuditEntry[], error?: unknown): void {
      if (lost.length === 0) return;
      entries.add(lost.length, { outcome: 'lost' });
      const calls = lost.slice(0, 10).map(({ detail }) => detail?.call);
      logger.error({ err: error, entries: lost.length, calls }, 'audit entries lost');
    },
  };
}
type Outcomes = ReturnType<typeof createOutcomes>;

/** Writes a batch. Returns the entries without a waiting caller that an outage has kept back. */
async function writeBatch(
  db: Queryable,
  outcomes: Outcomes,
  { callers, others }: { callers: readonly Waiting[]; others: readonly AuditEntry[] },
): Promise<readonly AuditEntry[]> {
  try {
    await recordAudits(db, [...callers.map(({ entry }) => entry), ...others]);
    outcomes.written(callers.length + others.length);
    for (const { resolve } of callers) resolve();
    return [];
  } catch (error) {
    if (!isOutage(error)) return writeEach(db, outcomes, { callers, others });
    if (callers.length > 0) outcomes.failed(callers.length);
    for (const { reject } of callers) reject(error);
    return others;
  }
}

/** Writes the entries one by one, so that an invalid entry does not make the others fail. Returns as `writeBatch`. */
async function writeEach(
  db: Queryable,
  outcomes: Outcomes,
  { callers, others }: { callers: readonly Waiting[]; others: readonly AuditEntry[] },
): Promise<readonly AuditEntry[]> {
  for (const { entry, resolve, reject } of callers) {
    try {
      await recordAudit(db, entry);
      outcomes.written(1);
      resolve();
    } catch (error) {
      outcomes.failed(1);
      reject(error);
    }
  }
  const kept: AuditEntry[] = [];
  for (const entry of others) {
    try {
      await recordAudit(db, entry);
      outcomes.written(1);
    } catch (error) {
      if (isOutage(error)) kept.push(entry);
      else outcomes.lost([entry], error);
    }
  }
  return kept;
}
