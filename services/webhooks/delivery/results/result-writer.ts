import type pg from 'pg';
import { createBackoff, equalJitter, noJitter, retry } from '../../../platform/backoff.ts';
import type { Logger } from '../../../platform/log.ts';
import { isOutage } from '../../../platform/outage.ts';
import type { EndpointChange, HealthChanges } from '../endpoint/health-changes.ts';
import { queueKeyOf } from '../queue/queue-ref.ts';
import type { AttemptResult } from './attempt-result.ts';
import { type WrittenResults, writeResults } from './write-results.ts';

export interface ResultWriterOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly offsetMs: () => number;
  /** Recorded together with the results. */
  readonly healthChanges: Pick<HealthChanges, 'take'>;
  /** Called with results that were recorded, or dropped. */
  readonly onRecorded: (batch: readonly AttemptResult[], written: WrittenResults) => void;
}

export interface ResultWriter {
  add(attemptResult: AttemptResult): void;
  /** How long the oldest result has been unrecorded; 0 when all are recorded. Milliseconds. */
  oldestMs(): number;
  /**
   * Resolves when all results are written. Results that cannot be recorded are dropped after the time. Milliseconds.
   */
  drain(timeoutMs: number): Promise<void>;
}

/** Results recorded by one statement. */
const MAX_BATCH = 256;
/** Results are collected for this time, or until there are MAX_BATCH of them. Milliseconds. */
const GATHER_MS = 20;
const ENOUGH = 64;
const OUTAGE_BACKOFF = createBackoff({ firstMs: 50, longestMs: 1_000, jitter: equalJitter });
/** Pause before skipped results are tried again. Milliseconds. */
const PASSED_PAUSE_MS = 100;
/** Of a result that the database rejects in every form. Those of one batch are tried together again. */
const REFUSED_BACKOFF = createBackoff({ firstMs: 1_000, longestMs: 60_000, jitter: noJitter });
/** This many rejected results in a row share one cause. The others are then not tried, and pauses stay short. */
const SHARED_CAUSE = 5;
const MAX_SHARED_PAUSE_MS = 4_000;
/** Most queues with failures in memory. */
const MAX_FAILING = 10_000;

const NOTHING: WrittenResults = { stale: [], passed: [], notices: [] };
const NOT_RECORDED = 'delivery results were not recorded; the deliveries are sent again';

/** A result to be written later. */
interface Postponed {
  readonly one: AttemptResult;
  /** By the monotonic clock. Milliseconds. */
  atMs: number;
}

/**
 * Records results in batches. While one statement runs, results for the next one are collected. During an outage a
 * batch is retried until it succeeds; the statement itself checks that the leases are still held. Skipped results are
 * retried with a later batch. A result that the database rejects in every form stays in memory and is retried after a
 * growing pause. During that time its delivery is not sent again.
 */
export function createResultWriter(o: ResultWriterOptions): ResultWriter {
  const waiting: AttemptResult[] = [];
  let postponed: Postponed[] = [];
  /** Deliveries with unrecorded results, oldest first, with the time at which they were added. Milliseconds. */
  const unrecorded = new Map<string, number>();
  /** How often the result of a delivery was rejected in every form. */
  const refusals = new Map<string, number>();
  /** Queues with a failure since their deliveries were read. */
  const failing = new Set<string>();
  let running: Promise<void> | undefined;
  let onEnough = (): void => {};
  let endRest = (): void => {};
  let giveUpAt = Number.POSITIVE_INFINITY;

  async function run(): Promise<void> {
    await gathered();
    while (waiting.length + postponed.length > 0) {
      takeDue();
      if (waiting.length === 0) {
        await rest(Math.min(...postponed.map(({ atMs }) => atMs)) - performance.now());
        continue;
      }
      const batch = waiting.splice(0, MAX_BATCH).map(withFailing);
      const written = await untilWritten(batch, o.healthChanges.take());
      const again =
        performance.now() < giveUpAt ? new Set(written.passed) : new Set<AttemptResult>();
      for (const one of again) postpone(one);
      if (again.size === 0 && written.passed.length > 0) {
        o.logger.error({ deliveries: written.passed.length }, NOT_RECORDED);
      }
      const done = batch.filter((one) => !again.has(one));
      for (const { due } of done) {
        unrecorded.delete(due.id);
        refusals.delete(due.id);
      }
      o.onRecorded(done, written);
    }
  }

  function takeDue(): void {
    const now = performance.now();
    const due = postponed.filter(({ atMs }) => atMs <= now);
    if (due.length === 0) return;
    postponed = postponed.filter(({ atMs }) => atMs > now);
    waiting.unshift(...due.map(({ one }) => one));
  }

  function postpone(one: AttemptResult): void {
    const refused = refusals.get(one.due.id) ?? 0;
    const isDraining = giveUpAt < Number.POSITIVE_INFINITY;
    const backoffMs = REFUSED_BACKOFF(refused);
    const longerMs =
      refusals.size >= SHARED_CAUSE ? Math.min(backoffMs, MAX_SHARED_PAUSE_MS) : backoffMs;
    const pauseMs = refused === 0 || isDraining ? PASSED_PAUSE_MS : longerMs;
    postponed.push({ one, atMs: performance.now() + pauseMs });
  }

  async function rest(ms: number): Promise<void> {
    await new Promise<void>((done) => {
      const timer = setTimeout(done, ms);
      endRest = () => {
        clearTimeout(timer);
        done();
      };
    });
    endRest = () => {};
  }

  async function gathered(): Promise<void> {
    await new Promise<void>((done) => {
      const timer = setTimeout(done, GATHER_MS);
      onEnough = () => {
        clearTimeout(timer);
        done();
      };
      if (waiting.length >= ENOUGH || giveUpAt < Number.POSITIVE_INFINITY) onEnough();
    });
    onEnough = () => {};
  }

  function withFailing(attemptResult: AttemptResult): AttemptResult {
    const key = queueKeyOf(attemptResult.due);
    if (attemptResult.ended !== 'delivered') {
      if (failing.size >= MAX_FAILING) failing.clear();
      if (attemptResult.sent) failing.add(key);
      return attemptResult;
    }
    if (!failing.delete(key) || attemptResult.due.isFailing) return attemptResult;
    return { ...attemptResult, due: { ...attemptResult.due, isFailing: true } };
  }

  async function untilWritten(
    batch: readonly AttemptResult[],
    changes: EndpointChange[],
  ): Promise<WrittenResults> {
    const deliveries = batch.length;
    const isPassing = (error: unknown): boolean => {
      if (!isOutage(error) || performance.now() >= giveUpAt) return false;
      o.logger.warn({ err: error, deliveries }, 'delivery results not recorded, retrying');
      return true;
    };
    const write = () => writeResults(o.pool, batch, changes, { offsetMs: o.offsetMs() });
    try {
      return await retry(write, { backoff: OUTAGE_BACKOFF, isPassing });
    } catch (error) {
      if (!isOutage(error)) return apart(batch, changes, error);
      o.logger.error({ err: error, deliveries }, NOT_RECORDED);
      return NOTHING;
    }
  }

  /** The database rejects part of the batch. Records the rest. */
  async function apart(
    batch: readonly AttemptResult[],
    changes: EndpointChange[],
    error: unknown,
  ): Promise<WrittenResults> {
    if (changes.length === 0) return oneByOne(batch, error);
    if (batch.length > 0) {
      await untilWritten([], changes);
      return oneByOne(batch, error);
    }
    o.logger.error({ err: error }, 'endpoint health not recorded');
    return NOTHING;
  }

  /** Records each result by itself. Of a rejected one it records the part that the database accepts. */
  async function oneByOne(
    batch: readonly AttemptResult[],
    error: unknown,
  ): Promise<WrittenResults> {
    const [first] = batch;
    if (batch.length === 1 && first) {
      const about = { err: error, delivery: first.due.id };
      o.logger.error(about, 'delivery result rejected by the database');
      const less = lessOf(first);
      if (!less) {
        noteRefusal(first);
        return { ...NOTHING, passed: [first] };
      }
      const written = await untilWritten([less], []);
      return { ...written, passed: written.passed.length > 0 ? [first] : [] };
    }
    const parts: WrittenResults[] = [];
    let untried: readonly AttemptResult[] = [];
    let inRow = 0;
    for (const [at, one] of batch.entries()) {
      const refusedBefore = refusals.get(one.due.id);
      parts.push(await untilWritten([one], []));
      inRow = refusals.get(one.due.id) === refusedBefore ? 0 : inRow + 1;
      if (inRow < SHARED_CAUSE) continue;
      untried = batch.slice(at + 1);
      break;
    }
    for (const one of untried) noteRefusal(one);
    return {
      stale: parts.flatMap((part) => part.stale),
      // The next batch begins with these.
      passed: [...untried, ...parts.flatMap((part) => part.passed)],
      notices: parts.flatMap((part) => part.notices),
    };
  }

  function noteRefusal({ due }: AttemptResult): void {
    refusals.set(due.id, (refusals.get(due.id) ?? 0) + 1);
  }

  function start(): void {
    running ??= run().finally(() => {
      running = undefined;
      if (waiting.length > 0) start();
    });
  }

  return {
    add(attemptResult) {
      waiting.push(attemptResult);
      unrecorded.set(attemptResult.due.id, performance.now());
      start();
      endRest();
      if (waiting.length >= ENOUGH) onEnough();
    },
    oldestMs() {
      const [oldest] = unrecorded.values();
      return oldest === undefined ? 0 : performance.now() - oldest;
    },
    async drain(timeoutMs) {
      giveUpAt = performance.now() + timeoutMs;
      for (const one of postponed) one.atMs = performance.now();
      endRest();
      onEnough();
      while (running !== undefined) await running;
    },
  };
}

/** Pause of a delivery whose attempt could not be recorded at all. Milliseconds. */
const UNRECORDED_PAUSE_MS = 60_000;

/** A smaller form of a rejected result: first without its texts, then only the next state of the delivery. */
function lessOf(one: AttemptResult): AttemptResult | undefined {
  const { sent, pauseMs } = one;
  if (!sent) return undefined;
  if (sent.headers === '') {
    return { ...one, sent: undefined, pauseMs: Math.max(pauseMs, UNRECORDED_PAUSE_MS) };
  }
  const outcome = { ...sent.outcome, error: 'what came of it cannot be shown', excerpt: '' };
  return { ...one, sent: { outcome, headers: '' } };
}
