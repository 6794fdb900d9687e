import type pg from 'pg';
import type { Logger } from '../../../platform/log.ts';
import type { RetryClock } from '../attempt/retry-clock.ts';
import type { DeliveryMetrics } from '../results/metrics.ts';
import { markDue } from '../scheduler/active-queue.ts';
import type { ActiveQueues } from '../scheduler/active-queues.ts';
import { markFreshReady, restartWaits } from './clock-set-back.ts';
import type { ClockReading, DatabaseClock } from './database-clock.ts';

export interface ClockStepsOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly clock: RetryClock;
  readonly databaseClock: DatabaseClock;
  readonly active: ActiveQueues;
  readonly metrics: Pick<DeliveryMetrics, 'clockStep'>;
}

/** Detects steps of the database's clock, and limits what they do to deliveries. */
export interface ClockSteps {
  /** The current time of the retry clock, as the database computes it. */
  retryNowMs(): number;
  /**
   * Takes a reading of the clock. Logs and counts a step. After a step, the queues in memory are read from their start.
   */
  note(reading: ClockReading): void;
  /** Every few seconds, corrects times from before the clock was set back. Returns whether there is more to correct. */
  correct(shards: readonly number[]): Promise<boolean>;
}

const CORRECT_EVERY_MS = 5_000;

export function createClockSteps(o: ClockStepsOptions): ClockSteps {
  const { databaseClock } = o;
  let correctAtMs = 0;
  /** Shards whose fresh deliveries were already checked: since the last step, and since this process took the shard. */
  let checked: ReadonlySet<number> = new Set();

  return {
    retryNowMs: () => databaseClock.nowMs() + o.clock.offsetMs(),
    note(reading) {
      const stepMs = databaseClock.read(reading);
      if (stepMs === 0) return;
      o.logger.warn({ seconds: Math.round(stepMs / 1_000) }, 'database clock step detected');
      o.metrics.clockStep(stepMs);
      correctAtMs = 0;
      checked = new Set();
      for (const queue of o.active.queues.values()) {
        queue.fullScanAtMs = Number.NEGATIVE_INFINITY;
        markDue(queue);
      }
    },
    async correct(shards) {
      const offsetMs = o.clock.offsetMs();
      const unchecked = shards.filter((shard) => !checked.has(shard));
      if (unchecked.length > 0) await markFreshReady(o.pool, { shards: unchecked, offsetMs });
      checked = new Set(shards);
      if (performance.now() < correctAtMs) return false;
      const isMore = await restartWaits(o.pool, { shards, offsetMs });
      correctAtMs = isMore ? 0 : performance.now() + CORRECT_EVERY_MS;
      return isMore;
    },
  };
}
