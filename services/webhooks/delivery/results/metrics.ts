import type { Meter } from '@opentelemetry/api';
import type { AttemptResult } from './write-results.ts';

/** Seconds: from at once to the end of the schedule. */
const LAG_BOUNDS_S = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600, 86_400, 300_000];
const DURATION_BOUNDS_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15];
const BATCH_BOUNDS = [1, 2, 5, 10, 25, 50, 100, 256];

export interface DeliveryMetrics {
  /** @param offsetMs of the retry clock, which the time of queueing is kept by. */
  written(batch: readonly AttemptResult[], offsetMs: number): void;
  stale(attempts: number): void;
  /** An attempt could not be made. */
  putOff(): void;
  noticed(kind: 'disabled' | 'warned', percent: number): void;
  /** A shop has used up what it may send in a minute. */
  bytesUsedUp(): void;
}

/** Attempts by result, how long they take, how late deliveries arrive, what is under way. */
export function deliveryMetrics(
  meter: Meter,
  now: {
    inFlight: () => number;
    queues: () => number;
    shopsWaiting: () => number;
    oldestResultMs: () => number;
  },
): DeliveryMetrics {
  const attempts = meter.createCounter('webhooks.attempts', { description: 'Attempts by result' });
  const duration = meter.createHistogram('webhooks.attempt.duration', {
    unit: 's',
    description: 'Duration of attempts',
    advice: { explicitBucketBoundaries: DURATION_BOUNDS_S },
  });
  const lag = meter.createHistogram('webhooks.delivery.lag', {
    unit: 's',
    description: 'From fan-out to delivery',
    advice: { explicitBucketBoundaries: LAG_BOUNDS_S },
  });
  const batches = meter.createHistogram('webhooks.results.batch', {
    description: 'Attempts written down by one statement',
    advice: { explicitBucketBoundaries: BATCH_BOUNDS },
  });
  const staleOnes = meter.createCounter('webhooks.results.stale', {
    description: 'Attempts that were not written down: another process had taken over',
  });
  const putOffs = meter.createCounter('webhooks.deliveries.rescheduled', {
    description: 'Attempts that could not be made, by no fault of their receivers',
  });
  const usedUp = meter.createCounter('webhooks.shop_bytes_used_up', {
    description: 'Times that a shop had used up the bytes that it may send in a minute',
  });
  meter
    .createObservableGauge('webhooks.shops_waiting', {
      description: 'Shops whose deliveries wait because their bytes of the minute are used up',
    })
    .addCallback((result) => result.observe(now.shopsWaiting()));
  const disabled = meter.createCounter('webhooks.subscriptions.disabled', {
    description: 'Subscriptions set inactive for failing',
  });
  const warned = meter.createCounter('webhooks.subscriptions.warned', {
    description: 'Warnings that a subscription will be set inactive, by the share of the time',
  });
  meter
    .createObservableGauge('webhooks.in_flight', {
      description: 'Attempts that are open or not yet written down',
    })
    .addCallback((result) => result.observe(now.inFlight()));
  meter
    .createObservableGauge('webhooks.results.oldest.age', {
      unit: 's',
      description: 'For how long the oldest delivery result could not be recorded',
    })
    .addCallback((result) => result.observe(now.oldestResultMs() / 1_000));
  meter
    .createObservableGauge('webhooks.queues.active', { description: 'Subscriptions looked after' })
    .addCallback((result) => result.observe(now.queues()));

  return {
    written(batch, offsetMs) {
      batches.record(batch.length);
      for (const { due, sent, ended } of batch) {
        if (!sent) continue;
        const { result, durationMs, startedAt } = sent.outcome;
        attempts.add(1, { result });
        duration.record(durationMs / 1_000, { result });
        if (ended !== 'delivered') continue;
        const arrivedAt = startedAt.getTime() + durationMs + offsetMs;
        lag.record(Math.max(0, arrivedAt - due.queuedAtMs) / 1_000);
      }
    },
    stale: (count) => staleOnes.add(count),
    putOff: () => putOffs.add(1),
    bytesUsedUp: () => usedUp.add(1),
    noticed(kind, percent) {
      if (kind === 'disabled') disabled.add(1);
      else warned.add(1, { percent });
    },
  };
}
