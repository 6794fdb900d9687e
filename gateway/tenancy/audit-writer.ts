import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Meter } from '@opentelemetry/api';
import { isOutage } from '../../services/platform/postgres/outage.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { within } from '../../services/platform/process/within.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { DAY_BYTES_MAX, endCalls, type OpenCall, openCalls } from './open-calls.ts';

/** Records calls before their work and adds them to the audit log with their outcome, many in one statement. */
export interface AuditWriter {
  /** Resolves once the open call is committed. Rejects when it cannot be written. */
  open(call: OpenCall): Promise<void>;
  /**
   * Adds the call with its outcome to the log within a second. During a database outage it stays in memory. If it is
   * lost, the log gets the call as `unknown` later, because it is still open.
   */
  end(call: OpenCall): void;
  /**
   * Does the same before it resolves, so that people and assistants find the entry right after their response. Resolves
   * after a second at the latest, even if the entry was not written yet. Never rejects.
   */
  endNow(call: OpenCall): Promise<void>;
  /** Writes the outcomes in memory, for at most 5 s, and stops. Logs and counts those that are left as lost. */
  stop(): Promise<void>;
}

/** Maximum time that `end` keeps an outcome in memory. Milliseconds. */
const BUFFER_MS = 1_000;
const MAX_BATCH = 500;
/** Maximum number of outcomes in memory. Further ones are lost; the writer logs and counts them. */
const MAX_BUFFERED = 10_000;
/** Maximum time of `stop`. One statement of a hanging database may take longer. Milliseconds. */
const STOP_MS = 5_000;

export interface AuditWriterOptions {
  readonly logger: Logger;
  readonly meter: Meter;
  readonly stopMs?: number;
  /** What the calls of a shop may add on a day as entries of their own. Bytes. */
  readonly dayBytes?: number;
}

export function createAuditWriter(db: Queryable, o: AuditWriterOptions): AuditWriter {
  const counter = createCallCounter(o);
  const open = createOpening(db, counter);
  const outcomes = createOutcomes(db, counter, o.dayBytes ?? DAY_BYTES_MAX);
  return {
    open,
    end: (call) => outcomes.add(call),
    async endNow(call) {
      outcomes.add(call);
      await within(BUFFER_MS, outcomes.writeNext());
    },
    async stop() {
      await within(o.stopMs ?? STOP_MS, outcomes.writeAll());
      counter.lost(outcomes.close());
    },
  };
}

/** Writes all calls of one event loop tick with one statement, then all that arrived while it was running. */
function createOpening(db: Queryable, counter: CallCounter): AuditWriter['open'] {
  interface Waiting {
    readonly call: OpenCall;
    resolve(): void;
    reject(error: unknown): void;
  }
  const waiting: Waiting[] = [];
  let isRunning = false;

  const fail = (calls: readonly Waiting[], error: unknown): void => {
    if (calls.length > 0) counter.failed(calls.length);
    for (const { reject } of calls) reject(error);
  };
  const drain = async (): Promise<void> => {
    await nextTurn();
    while (waiting.length > 0) {
      const { left, error } = await writeBatch(waiting.splice(0, MAX_BATCH), {
        write: (calls) =>
          openCalls(
            db,
            calls.map(({ call }) => call),
          ),
        written: (calls) => calls.forEach(({ resolve }) => void resolve()),
        invalid: (call, reason) => fail([call], reason),
      });
      fail(left, error);
    }
    isRunning = false;
  };
  return (call) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    waiting.push({ call, resolve, reject });
    if (!isRunning) {
      isRunning = true;
      void drain();
    }
    return promise;
  };
}

function createOutcomes(db: Queryable, counter: CallCounter, dayBytes: number) {
  const buffered: OpenCall[] = [];
  /** Those in the running statement. */
  let inStatement: readonly OpenCall[] = [];
  let isClosed = false;
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const drain = async (): Promise<void> => {
    do {
      inStatement = buffered.splice(0, MAX_BATCH);
      const { left } = await writeBatch(inStatement, {
        write: (calls) => endCalls(db, calls, dayBytes),
        written: (calls) => counter.written(calls.length),
        invalid: (call, error) => counter.lost([call], error),
      });
      inStatement = [];
      if (!isClosed) buffered.unshift(...left);
      counter.lost(buffered.splice(MAX_BUFFERED));
      if (left.length > 0) return;
    } while (buffered.length >= MAX_BATCH);
  };
  const start = (): Promise<void> => {
    running ??= drain().finally(() => {
      running = undefined;
      if (buffered.length > 0) startLater();
    });
    return running;
  };
  const startLater = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      void start();
    }, BUFFER_MS).unref();
  };
  return {
    add(call: OpenCall): void {
      buffered.push(call);
      counter.lost(buffered.splice(isClosed ? 0 : MAX_BUFFERED));
      if (!isClosed) startLater();
    },
    /** Tries to write what is in memory, after the statement that is running. */
    async writeNext(): Promise<void> {
      await running;
      if (!isClosed) await start();
    },
    /** Tries to write each outcome once. */
    async writeAll(): Promise<void> {
      await running;
      for (let left = buffered.length; left > 0 && buffered.length > 0; left -= MAX_BATCH)
        await start();
    },
    /**
     * Keeps no outcome of a statement that fails later.
     *
     * @returns the outcomes in memory, and those of a statement that is still running. It may write them, but if it
     *   does not, nobody would report them later.
     */
    close(): readonly OpenCall[] {
      isClosed = true;
      clearTimeout(timer);
      return [...inStatement, ...buffered.splice(0)];
    },
  };
}

/** Counts calls whose outcome was written or lost, and those that could not be recorded; logs what is lost. */
function createCallCounter({ logger, meter }: Pick<AuditWriterOptions, 'logger' | 'meter'>) {
  const entries = meter.createCounter('audit.entries', {
    description: 'Audit log entries by outcome: written, failed (the caller got an error), lost',
  });
  return {
    written: (count: number) => entries.add(count, { outcome: 'written' }),
    failed: (count: number) => entries.add(count, { outcome: 'failed' }),
    lost(unwritten: readonly OpenCall[], error?: unknown): void {
      if (unwritten.length === 0) return;
      entries.add(unwritten.length, { outcome: 'lost' });
      const calls = unwritten.slice(0, 10).map(({ call }) => call);
      logger.error({ err: error, entries: unwritten.length, calls }, 'audit entries lost');
    },
  };
}
type CallCounter = ReturnType<typeof createCallCounter>;

/**
 * Writes all items with one statement, or one by one when that fails by an invalid item, so that only this item fails.
 * Stops at an outage, because each further statement could wait until its deadline.
 *
 * @returns the items that an outage left unwritten, and its error.
 */
async function writeBatch<T>(
  items: readonly T[],
  o: {
    write(items: readonly T[]): Promise<void>;
    written(items: readonly T[]): void;
    invalid(item: T, error: unknown): void;
  },
): Promise<{ readonly left: readonly T[]; readonly error?: unknown }> {
  try {
    await o.write(items);
    o.written(items);
    return { left: [] };
  } catch (error) {
    if (isOutage(error)) return { left: items, error };
  }
  for (const [nth, item] of items.entries()) {
    try {
      await o.write([item]);
      o.written([item]);
    } catch (error) {
      if (isOutage(error)) return { left: items.slice(nth), error };
      o.invalid(item, error);
    }
  }
  return { left: [] };
}
