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
  const entries = meter.createCounter('audit.entries', {
    description: 'Entries of the audit log: written, failed (the write was refused), lost',
  });
  let awaited: Waiting[] = [];
  let soon: AuditEntry[] = [];
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const lose = (lost: readonly AuditEntry[], error?: unknown): void => {
    if (lost.length === 0) return;
    entries.add(lost.length, { outcome: 'lost' });
    const calls = lost.slice(0, 10).map(({ detail }) => detail?.call);
    logger.error({ err: error, entries: lost.length, calls }, 'audit entries lost');
  };
  const keep = (kept: readonly AuditEntry[]): void => {
    soon = [...kept, ...soon];
    lose(soon.slice(MAX_KEPT));
    soon = soon.slice(0, MAX_KEPT);
  };
  const writeOne = async (entry: AuditEntry, caller?: Waiting): Promise<void> => {
    try {
      await recordAudit(db, entry);
      entries.add(1, { outcome: 'written' });
      caller?.resolve();
    } catch (error) {
      if (!caller) return isOutage(error) ? keep([entry]) : lose([entry], error);
      entries.add(1, { outcome: 'failed' });
      caller.reject(error);
    }
  };
  const writeBatch = async (callers: readonly Waiting[], others: readonly AuditEntry[]) => {
    try {
      await recordAudits(db, [...callers.map(({ entry }) => entry), ...others]);
      entries.add(callers.length + others.length, { outcome: 'written' });
      for (const { resolve } of callers) resolve();
    } catch (error) {
      if (isOutage(error)) {
        if (callers.length > 0) entries.add(callers.length, { outcome: 'failed' });
        for (const { reject } of callers) reject(error);
        keep(others);
        return;
      }
      // The entries are written one by one, so that an invalid entry does not make the others fail.
      for (const caller of callers) await writeOne(caller.entry, caller);
      for (const entry of others) await writeOne(entry);
    }
  };
  const drain = async (): Promise<void> => {
    await nextTurn();
    do {
      const callers = awaited.slice(0, MAX_BATCH);
      const others = soon.slice(0, MAX_BATCH - callers.length);
      awaited = awaited.slice(callers.length);
      soon = soon.slice(others.length);
      await writeBatch(callers, others);
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
      lose(soon.splice(MAX_KEPT));
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
      lose(soon);
      soon = [];
    },
  };
}
