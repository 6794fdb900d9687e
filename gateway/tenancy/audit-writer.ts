import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Meter } from '@opentelemetry/api';
import { isOutage } from '../../services/platform/postgres/outage.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { within } from '../../services/platform/process/within.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { type AuditEntry, recordAudit, recordAudits } from './audit.ts';

/** Adds entries to the audit log, many in one statement. */
export interface AuditWriter {
  /** Resolves once the entry is committed. Rejects when it cannot be written. */
  write(entry: AuditEntry): Promise<void>;
  /**
   * Adds the entry to the buffer, which is written within a second. During a database outage the entry stays in memory.
   */
  writeSoon(entry: AuditEntry): void;
  /** Writes the buffered entries, for at most 5 s, and stops. Logs and counts the entries that are left as lost. */
  stop(): Promise<void>;
}

interface PendingEntry {
  readonly entry: AuditEntry;
  resolve(): void;
  reject(error: unknown): void;
}

/** Maximum time that `writeSoon` buffers an entry. Milliseconds. */
const BUFFER_MS = 1_000;
const MAX_BATCH = 500;
/**
 * Maximum number of entries in the buffer of `writeSoon`. Further entries are lost; the writer logs and counts them.
 */
const MAX_BUFFERED = 10_000;
/** Maximum time of `stop`. One statement of a hanging database may take longer. Milliseconds. */
const STOP_MS = 5_000;

/**
 * Creates a writer that writes many entries with one statement: first all entries of one event loop tick, then all
 * entries that arrived while the previous statement was running.
 */
export function createAuditWriter(
  db: Queryable,
  {
    logger,
    meter,
    stopMs = STOP_MS,
  }: { readonly logger: Logger; readonly meter: Meter; readonly stopMs?: number },
): AuditWriter {
  const counter = createEntryCounter(logger, meter);
  const queue = createQueue(db, counter);
  return {
    write(entry) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      queue.add({ entry, resolve, reject });
      return promise;
    },
    writeSoon: (entry) => queue.addLater(entry),
    async stop() {
      await within(stopMs, queue.writeAll());
      counter.lost(queue.close());
    },
  };
}

/** The entries that are not written yet. */
interface Queue {
  /** Adds an entry, and writes it without a pause. */
  add(entry: PendingEntry): void;
  /** Adds an entry to the buffer. */
  addLater(entry: AuditEntry): void;
  /** Tries to write each entry of the buffer once. */
  writeAll(): Promise<void>;
  /**
   * Empties the buffer, and keeps no entry of a statement that fails later.
   *
   * @returns the entries of the buffer, and those of a statement that is still running. It may write them, but if it
   *   does not, nobody would report them later.
   */
  close(): readonly AuditEntry[];
}

function createQueue(db: Queryable, counter: EntryCounter): Queue {
  const pending: PendingEntry[] = [];
  const buffered: AuditEntry[] = [];
  /** The entries of the buffer in the running statement. */
  let inStatement: readonly AuditEntry[] = [];
  let isClosed = false;
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const drain = async (): Promise<void> => {
    await nextTurn();
    do {
      const callers = pending.splice(0, MAX_BATCH);
      inStatement = buffered.splice(0, MAX_BATCH - callers.length);
      const unwritten = await writeBatch(db, counter, { callers, background: inStatement });
      inStatement = [];
      if (!isClosed) buffered.unshift(...unwritten);
      counter.lost(buffered.splice(MAX_BUFFERED));
    } while (pending.length > 0);
  };
  const start = (): void => {
    running ??= drain().finally(() => {
      running = undefined;
      if (pending.length > 0) start();
      else if (buffered.length > 0) startLater();
    });
  };
  const startLater = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      start();
    }, BUFFER_MS).unref();
  };

  return {
    add(entry) {
      pending.push(entry);
      start();
    },
    addLater(entry) {
      buffered.push(entry);
      counter.lost(buffered.splice(MAX_BUFFERED));
      startLater();
    },
    async writeAll() {
      await running;
      for (let left = buffered.length; left > 0 && !isClosed; left -= MAX_BATCH) {
        start();
        await running;
      }
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
      timer = undefined;
      return [...inStatement, ...buffered.splice(0)];
    },
  };
}

/** Counts written, failed and lost entries, and logs lost entries. */
function createEntryCounter(logger: Logger, meter: Meter) {
  const entries = meter.createCounter('audit.entries', {
    description: 'Audit log entries by outcome: written, failed (the caller got an error), lost',
  });
  return {
    written: (count: number) => entries.add(count, { outcome: 'written' }),
    failed: (count: number) => entries.add(count, { outcome: 'failed' }),
    lost(unwritten: readonly AuditEntry[], error?: unknown): void {
      if (unwritten.length === 0) return;
      entries.add(unwritten.length, { outcome: 'lost' });
      const calls = unwritten.slice(0, 10).map(({ detail }) => detail?.call);
      logger.error({ err: error, entries: unwritten.length, calls }, 'audit entries lost');
    },
  };
}
type EntryCounter = ReturnType<typeof createEntryCounter>;

interface Batch {
  readonly callers: readonly PendingEntry[];
  readonly background: readonly AuditEntry[];
}

/**
 * Writes a batch. During an outage, rejects the entries of `write` (`callers`), and returns those of `writeSoon`
 * (`background`), so that they are buffered again.
 */
async function writeBatch(
  db: Queryable,
  counter: EntryCounter,
  { callers, background }: Batch,
): Promise<readonly AuditEntry[]> {
  try {
    await recordAudits(db, [...callers.map(({ entry }) => entry), ...background]);
    counter.written(callers.length + background.length);
    for (const { resolve } of callers) resolve();
    return [];
  } catch (error) {
    if (!isOutage(error)) return writeEach(db, counter, { callers, background });
    rejectAll(callers, error, counter);
    return background;
  }
}

function rejectAll(callers: readonly PendingEntry[], error: unknown, counter: EntryCounter): void {
  if (callers.length > 0) counter.failed(callers.length);
  for (const { reject } of callers) reject(error);
}

/**
 * Writes the entries one by one, so that only an invalid entry fails. Stops at the first outage, because each further
 * statement could wait until its deadline. The entries that are left end as after a failure of {@link writeBatch}:
 * those with a waiting caller are rejected, and the others are returned.
 */
async function writeEach(
  db: Queryable,
  counter: EntryCounter,
  { callers, background }: Batch,
): Promise<readonly AuditEntry[]> {
  for (const [nth, { entry, resolve, reject }] of callers.entries()) {
    try {
      await recordAudit(db, entry);
      counter.written(1);
      resolve();
    } catch (error) {
      if (isOutage(error)) {
        rejectAll(callers.slice(nth), error, counter);
        return background;
      }
      counter.failed(1);
      reject(error);
    }
  }
  for (const [nth, entry] of background.entries()) {
    try {
      await recordAudit(db, entry);
      counter.written(1);
    } catch (error) {
      if (isOutage(error)) return background.slice(nth);
      counter.lost([entry], error);
    }
  }
  return [];
}
