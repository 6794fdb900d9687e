import type { Meter } from '@opentelemetry/api';
import type { AttemptResult } from './write-results.ts';

/** Seconds: from at once to the end of the schedule. */
const LAG_BOUNDS_S = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600, 86_400, 300_000];
const DURATION_BOUNDS_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15];
const BATCH_BOUNDS = [1, 2, 5, 10, 25, 50, 100, 256];

export interface DeliveryMetrics {
  /** @param offsetMs of the retry clock, which the time of queueing is kept by. */
  recorded(batch: readonly AttemptResult[], offsetMs: number): void;
  stale(attempts: number): void;
  /** An attempt could not be made. */
  rescheduled(): void;
  /** The clock of the database was set. Milliseconds. */
  clockStep(stepMs: number): void;
  noticed(kind: 'disabled' | 'warned', percent: number): void;
  /** A shop has used up what it may send in a minute. */
  bytesUsedUp(): void;
}

/** Counts attempts by result, how long they take, and how late deliveries arrive. */
export function deliveryMetrics(meter: Meter): DeliveryMetrics {
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
    description: 'Results recorded by one statement',
    advice: { explicitBucketBoundaries: BATCH_BOUNDS },
  });
  const staleOnes = meter.createCounter('webhooks.results.stale', {
    description: 'Results that were not recorded: another process had taken over',
  });
  const rescheduledOnes = meter.createCounter('webhooks.deliveries.rescheduled', {
    description:
      'Attempts that could not be made and were rescheduled; the receiver is not at fault',
  });
  const clockSteps = meter.createCounter('webhooks.database_clock.steps', {
    description: 'Times that the clock of the database was set, by direction',
  });
  const usedUp = meter.createCounter('webhooks.shop_bytes_used_up', {
    description: 'Times that a shop had used up the bytes that it may send in a minute',
  });
  const disabled = meter.createCounter('webhooks.subscriptions.disabled', {
    description: 'Subscriptions set inactive for failing',
  });
  const warned = meter.createCounter('webhooks.subscriptions.warned', {
    description: 'Warnings that a subscription will be set inactive, by the share of the time',
  });
  return {
    recorded(batch, offsetMs) {
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
    rescheduled: () => rescheduledOnes.add(1),
    clockStep: (stepMs) => clockSteps.add(1, { direction: stepMs < 0 ? 'back' : 'forward' }),
    bytesUsedUp: () => usedUp.add(1),
    noticed(kind, percent) {
      if (kind === 'disabled') disabled.add(1);
      else warned.add(1, { percent });
    },
  };
}

/** Gauges of what this process does at the moment. */
export function observeDelivery(
  meter: Meter,
  now: {
    readonly inFlight: () => number;
    readonly queues: () => number;
    readonly shopsWaiting: () => number;
    readonly oldestResultMs: () => number;
  },
): void {
  const gauge = (name: string, description: string, value: () => number, unit = ''): void => {
    meter
      .createObservableGauge(name, { description, ...(unit && { unit }) })
      .addCallback((result) => result.observe(value()));
  };
  gauge(
    'webhooks.shops_waiting',
    'Shops whose deliveries wait because their bytes of the minute are used up',
    now.shopsWaiting,
  );
  gauge('webhooks.in_flight', 'Attempts that are open or not recorded yet', now.inFlight);
  gauge(
    'webhooks.results.oldest.age',
    'For how long the oldest delivery result could not be recorded',
    () => now.oldestResultMs() / 1_000,
    's',
  );
  gauge('webhooks.queues.active', 'Queues in memory', now.queues);
}
