import type pg from 'pg';
import { isOutage } from '../../../platform/postgres/outage.ts';
import { createBackoff, equalJitter, noJitter, retry } from '../../../platform/process/backoff.ts';
import { type Loop, type Next, startLoop } from '../../../platform/process/worker.ts';
import type { Logger } from '../../../platform/telemetry/log.ts';
import type { EndpointChange, HealthChanges } from '../endpoint/health-changes.ts';
import { queueKeyOf } from '../queue/queue-ref.ts';
import type { AttemptResult } from './attempt-result.ts';
import { type WrittenResults, writeResults } from './write-results.ts';

interface ResultWriterOptions extends BatchWriterOptions {
  /** Changes of health. They are recorded together with the results. */
  readonly healthChanges: Pick<HealthChanges, 'take'>;
  /** Called with results that were recorded or dropped. */
  readonly onRecorded: (batch: readonly AttemptResult[], written: WrittenResults) => void;
}

/** Maximum number of results that one statement records. */
const MAX_BATCH = 256;
/**
 * How long results are collected before they are recorded, unless there are {@link ENOUGH} of them earlier.
 * Milliseconds.
 */
const GATHER_MS = 20;
const ENOUGH = 64;
/** Maximum number of queues with failures that are in memory. */
const MAX_FAILING = 10_000;

/** A result that is written later. */
interface Postponed {
  readonly one: AttemptResult;
  /** When it is written, by the monotonic clock. Milliseconds. */
  atMs: number;
}

/**
 * Records results in batches. While one statement runs, the results for the next one are collected. Skipped results are
 * tried again with a later batch. A result that the database rejects in every form stays in memory, and is tried again
 * after a pause that grows. Its delivery is not sent again during that time.
 */
export class ResultWriter {
  readonly #o: ResultWriterOptions;
  readonly #batches: BatchWriter;
  readonly #waiting: AttemptResult[] = [];
  #postponed: Postponed[] = [];
  /**
   * Deliveries whose results are not recorded, oldest first, each with the time at which its result was added.
   * Milliseconds.
   */
  readonly #unrecorded = new Map<string, number>();
  /** Queues that had a failure after some of their deliveries were read. */
  readonly #failing = new Set<string>();
  readonly #loop: Loop;
  #isDraining = false;
  /** Called when all results are written. */
  #onEmpty = (): void => {};

  constructor(o: ResultWriterOptions) {
    this.#o = o;
    this.#batches = new BatchWriter(o);
    const step = () => this.#step();
    this.#loop = startLoop({ name: 'delivery results', logger: o.logger, step });
  }

  add(attemptResult: AttemptResult): void {
    this.#waiting.push(attemptResult);
    this.#unrecorded.set(attemptResult.due.id, performance.now());
    const isUrgent = this.#waiting.length >= ENOUGH || this.#isDraining;
    this.#loop.wake(isUrgent ? 0 : GATHER_MS);
  }

  /** Returns for how long the oldest result has not been recorded; 0 when all are recorded. Milliseconds. */
  oldestMs(): number {
    const [oldest] = this.#unrecorded.values();
    return oldest === undefined ? 0 : performance.now() - oldest;
  }

  /** Resolves when all results are written. After `timeoutMs`, results that cannot be recorded are dropped. */
  async drain(timeoutMs: number): Promise<void> {
    this.#isDraining = true;
    this.#batches.giveUpAt(performance.now() + timeoutMs);
    for (const one of this.#postponed) one.atMs = performance.now();
    const { promise: empty, resolve } = Promise.withResolvers<void>();
    this.#onEmpty = resolve;
    this.#loop.wake();
    await empty;
  }

  async #step(): Promise<Next> {
    this.#takeDue();
    if (this.#waiting.length > 0) await this.#writeNext();
    if (this.#waiting.length > 0) return 'again';
    if (this.#postponed.length === 0) this.#onEmpty();
    return Math.min(...this.#postponed.map(({ atMs }) => atMs)) - performance.now();
  }

  async #writeNext(): Promise<void> {
    const batch = this.#waiting.splice(0, MAX_BATCH).map((one) => this.#withFailing(one));
    const written = await this.#batches.write(batch, this.#o.healthChanges.take());
    const again = new Set(this.#batches.toRepeat(written));
    for (const one of again) {
      this.#postponed.push({ one, atMs: performance.now() + this.#batches.pauseOf(one) });
    }
    const done = batch.filter((one) => !again.has(one));
    for (const { due } of done) {
      this.#unrecorded.delete(due.id);
      this.#batches.noteDone(due.id);
    }
    this.#o.onRecorded(done, written);
  }

  #takeDue(): void {
    const now = performance.now();
    const due = this.#postponed.filter(({ atMs }) => atMs <= now);
    if (due.length === 0) return;
    this.#postponed = this.#postponed.filter(({ atMs }) => atMs > now);
    this.#waiting.unshift(...due.map(({ one }) => one));
  }

  /** Sets `isFailing` of a success, when its queue had a failure after the delivery was read. */
  #withFailing(attemptResult: AttemptResult): AttemptResult {
    const key = queueKeyOf(attemptResult.due);
    if (attemptResult.ended !== 'delivered') {
      if (this.#failing.size >= MAX_FAILING) this.#failing.clear();
      if (attemptResult.sent) this.#failing.add(key);
      return attemptResult;
    }
    if (!this.#failing.delete(key) || attemptResult.due.isFailing) return attemptResult;
    return { ...attemptResult, due: { ...attemptResult.due, isFailing: true } };
  }
}

interface BatchWriterOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly offsetMs: () => number;
}

const OUTAGE_BACKOFF = createBackoff({ firstMs: 50, longestMs: 1_000, jitter: equalJitter });
/** Pause before skipped results are tried again. Milliseconds. */
const SKIPPED_PAUSE_MS = 100;
/**
 * Pauses of a result that the database rejects in every form. They have no jitter, so that the results of a batch are
 * tried together again.
 */
const REJECTED_BACKOFF = createBackoff({ firstMs: 1_000, longestMs: 60_000, jitter: noJitter });
/**
 * Number of rejected results in a row from which they must have a shared cause. The others of the batch are then not
 * tried, and pauses stay short.
 */
const SHARED_CAUSE = 5;
const MAX_SHARED_PAUSE_MS = 4_000;

const NOTHING: WrittenResults = { stale: [], skipped: [], notices: [] };
const NOT_RECORDED = 'delivery results were not recorded; the deliveries are sent again';

/**
 * Writes batches of results. During an outage it repeats a batch until it succeeds. The statement itself checks that
 * this process still owns the leases. When the database rejects a batch, each result is written alone. When the
 * database rejects a single result, a reduced form of it is written.
 */
class BatchWriter {
  readonly #o: BatchWriterOptions;
  /** For each delivery, how often the database has rejected its result in every form. */
  readonly #rejections = new Map<string, number>();
  #giveUpAt = Number.POSITIVE_INFINITY;

  constructor(o: BatchWriterOptions) {
    this.#o = o;
  }

  /** Sets the time, by the monotonic clock, from which results that cannot be recorded are dropped. */
  giveUpAt(atMs: number): void {
    this.#giveUpAt = atMs;
  }

  /** Writes a batch. Results that the database rejected in every form count as skipped. */
  async write(
    batch: readonly AttemptResult[],
    changes: readonly EndpointChange[],
  ): Promise<WrittenResults> {
    const deliveries = batch.length;
    const isTransient = (error: unknown): boolean => {
      if (!isOutage(error) || performance.now() >= this.#giveUpAt) return false;
      this.#o.logger.warn({ err: error, deliveries }, 'delivery results not recorded, retrying');
      return true;
    };
    const write = () =>
      writeResults(this.#o.pool, batch, changes, { offsetMs: this.#o.offsetMs() });
    try {
      return await retry(write, { backoff: OUTAGE_BACKOFF, isTransient });
    } catch (error) {
      if (!isOutage(error)) return this.#writeSeparately(batch, changes, error);
      this.#o.logger.error({ err: error, deliveries }, NOT_RECORDED);
      return NOTHING;
    }
  }

  /**
   * Returns the skipped results, which must be tried again. After the time of `giveUpAt`, logs and drops them instead.
   */
  toRepeat({ skipped }: WrittenResults): readonly AttemptResult[] {
    if (performance.now() < this.#giveUpAt) return skipped;
    if (skipped.length > 0) this.#o.logger.error({ deliveries: skipped.length }, NOT_RECORDED);
    return [];
  }

  /** Returns the pause before a skipped result is tried again. Milliseconds. */
  pauseOf({ due }: AttemptResult): number {
    const rejections = this.#rejections.get(due.id) ?? 0;
    const isDraining = this.#giveUpAt < Number.POSITIVE_INFINITY;
    if (rejections === 0 || isDraining) return SKIPPED_PAUSE_MS;
    const pauseMs = REJECTED_BACKOFF(rejections);
    return this.#rejections.size >= SHARED_CAUSE ? Math.min(pauseMs, MAX_SHARED_PAUSE_MS) : pauseMs;
  }

  /** Notes that the result of a delivery was recorded or dropped. */
  noteDone(deliveryId: string): void {
    this.#rejections.delete(deliveryId);
  }

  /** Records the results of a rejected batch one by one. */
  async #writeSeparately(
    batch: readonly AttemptResult[],
    changes: readonly EndpointChange[],
    error: unknown,
  ): Promise<WrittenResults> {
    const [first, second] = batch;
    if (changes.length > 0 && first) await this.write([], changes);
    if (!first) {
      this.#o.logger.error({ err: error }, 'endpoint health not recorded');
      return NOTHING;
    }
    return second ? this.#writeEach(batch) : this.#writeReduced(first, error);
  }

  async #writeEach(batch: readonly AttemptResult[]): Promise<WrittenResults> {
    const parts: WrittenResults[] = [];
    let untried: readonly AttemptResult[] = [];
    let rejectedInRow = 0;
    for (const [at, one] of batch.entries()) {
      const rejectionsBefore = this.#rejections.get(one.due.id);
      parts.push(await this.write([one], []));
      const isRejected = this.#rejections.get(one.due.id) !== rejectionsBefore;
      rejectedInRow = isRejected ? rejectedInRow + 1 : 0;
      if (rejectedInRow < SHARED_CAUSE) continue;
      untried = batch.slice(at + 1);
      break;
    }
    for (const one of untried) this.#noteRejection(one);
    return {
      stale: parts.flatMap((part) => part.stale),
      // The next batch begins with these results.
      skipped: [...untried, ...parts.flatMap((part) => part.skipped)],
      notices: parts.flatMap((part) => part.notices),
    };
  }

  /** Writes reduced forms of a rejected result, until the database accepts one. */
  async #writeReduced(one: AttemptResult, error: unknown): Promise<WrittenResults> {
    const about = { err: error, delivery: one.due.id };
    this.#o.logger.error(about, 'delivery result rejected by the database');
    const reduced = reducedForm(one);
    if (!reduced) {
      this.#noteRejection(one);
      return { ...NOTHING, skipped: [one] };
    }
    const written = await this.write([reduced], []);
    return { ...written, skipped: written.skipped.length > 0 ? [one] : [] };
  }

  #noteRejection({ due }: AttemptResult): void {
    this.#rejections.set(due.id, (this.#rejections.get(due.id) ?? 0) + 1);
  }
}

/** Pause of a delivery whose result could not be recorded in any form. Milliseconds. */
const UNRECORDED_PAUSE_MS = 60_000;

/**
 * Returns a smaller form of a rejected result: first one without its texts, then one with only the next state of the
 * delivery.
 */
function reducedForm(one: AttemptResult): AttemptResult | undefined {
  const { sent, pauseMs } = one;
  if (!sent) return undefined;
  if (sent.headers === '') {
    return { ...one, sent: undefined, pauseMs: Math.max(pauseMs, UNRECORDED_PAUSE_MS) };
  }
  const result = {
    ...sent.result,
    error: 'the details could not be stored',
    excerpt: '',
    headers: '',
  };
  return { ...one, sent: { result, headers: '' } };
}
