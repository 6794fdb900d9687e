import type pg from 'pg';
import { createBackoff, equalJitter, noJitter, retry } from '../../../platform/backoff.ts';
import type { Logger } from '../../../platform/log.ts';
import { isOutage } from '../../../platform/outage.ts';
import type { EndpointChange } from '../endpoint/health-changes.ts';
import type { AttemptResult } from './attempt-result.ts';
import { type WrittenResults, writeResults } from './write-results.ts';

export interface BatchWriterOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly offsetMs: () => number;
}

const OUTAGE_BACKOFF = createBackoff({ firstMs: 50, longestMs: 1_000, jitter: equalJitter });
/** Pause before skipped results are tried again. Milliseconds. */
const PASSED_PAUSE_MS = 100;
/** Of a result that the database rejects in every form. Those of one batch are tried together again. */
const REFUSED_BACKOFF = createBackoff({ firstMs: 1_000, longestMs: 60_000, jitter: noJitter });
/** This many rejected results in a row share one cause. The others are then not tried, and pauses stay short. */
const SHARED_CAUSE = 5;
const MAX_SHARED_PAUSE_MS = 4_000;

const NOTHING: WrittenResults = { stale: [], skipped: [], notices: [] };
const NOT_RECORDED = 'delivery results were not recorded; the deliveries are sent again';

/**
 * Writes batches of results. During an outage a batch is retried until it succeeds; the statement itself checks that
 * the leases are still held. When the database rejects a batch, each result is written by itself, and of a rejected
 * one the part that the database accepts.
 */
export class BatchWriter {
  readonly #o: BatchWriterOptions;
  /** How often the result of a delivery was rejected in every form. */
  readonly #refusals = new Map<string, number>();
  #giveUpAt = Number.POSITIVE_INFINITY;

  constructor(o: BatchWriterOptions) {
    this.#o = o;
  }

  /** After this time, by the monotonic clock, results that cannot be recorded are dropped. */
  giveUpAt(atMs: number): void {
    this.#giveUpAt = atMs;
  }

  /** @returns as skipped also those that the database rejected in every form. */
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
      if (!isOutage(error)) return this.#apart(batch, changes, error);
      this.#o.logger.error({ err: error, deliveries }, NOT_RECORDED);
      return NOTHING;
    }
  }

  /** The skipped results that are tried again. After the time limit there are none: they are logged and dropped. */
  toRepeat({ skipped }: WrittenResults): readonly AttemptResult[] {
    if (performance.now() < this.#giveUpAt) return skipped;
    if (skipped.length > 0) this.#o.logger.error({ deliveries: skipped.length }, NOT_RECORDED);
    return [];
  }

  /** How long a skipped result waits. Milliseconds. */
  pauseOf({ due }: AttemptResult): number {
    const refused = this.#refusals.get(due.id) ?? 0;
    const isDraining = this.#giveUpAt < Number.POSITIVE_INFINITY;
    if (refused === 0 || isDraining) return PASSED_PAUSE_MS;
    const pauseMs = REFUSED_BACKOFF(refused);
    return this.#refusals.size >= SHARED_CAUSE ? Math.min(pauseMs, MAX_SHARED_PAUSE_MS) : pauseMs;
  }

  /** The result of the delivery was recorded, or dropped. */
  forget(deliveryId: string): void {
    this.#refusals.delete(deliveryId);
  }

  /** The database rejects part of the batch. Records the rest. */
  async #apart(
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
    return second ? this.#oneByOne(batch) : this.#recordLess(first, error);
  }

  async #oneByOne(batch: readonly AttemptResult[]): Promise<WrittenResults> {
    const parts: WrittenResults[] = [];
    let untried: readonly AttemptResult[] = [];
    let inRow = 0;
    for (const [at, one] of batch.entries()) {
      const refusedBefore = this.#refusals.get(one.due.id);
      parts.push(await this.write([one], []));
      inRow = this.#refusals.get(one.due.id) === refusedBefore ? 0 : inRow + 1;
      if (inRow < SHARED_CAUSE) continue;
      untried = batch.slice(at + 1);
      break;
    }
    for (const one of untried) this.#noteRefusal(one);
    return {
      stale: parts.flatMap((part) => part.stale),
      // The next batch begins with these.
      skipped: [...untried, ...parts.flatMap((part) => part.skipped)],
      notices: parts.flatMap((part) => part.notices),
    };
  }

  /** Records the part of a rejected result that the database accepts. */
  async #recordLess(one: AttemptResult, error: unknown): Promise<WrittenResults> {
    const about = { err: error, delivery: one.due.id };
    this.#o.logger.error(about, 'delivery result rejected by the database');
    const less = lessOf(one);
    if (!less) {
      this.#noteRefusal(one);
      return { ...NOTHING, skipped: [one] };
    }
    const written = await this.write([less], []);
    return { ...written, skipped: written.skipped.length > 0 ? [one] : [] };
  }

  #noteRefusal({ due }: AttemptResult): void {
    this.#refusals.set(due.id, (this.#refusals.get(due.id) ?? 0) + 1);
  }
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
