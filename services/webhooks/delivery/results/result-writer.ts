import { type Loop, type Next, startLoop } from '../../../platform/worker.ts';
import type { HealthChanges } from '../endpoint/health-changes.ts';
import { queueKeyOf } from '../queue/queue-ref.ts';
import type { AttemptResult } from './attempt-result.ts';
import { BatchWriter, type BatchWriterOptions } from './batch-writer.ts';
import type { WrittenResults } from './write-results.ts';

export interface ResultWriterOptions extends BatchWriterOptions {
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
