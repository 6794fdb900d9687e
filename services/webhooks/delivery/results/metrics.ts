import type { Meter } from '@opentelemetry/api';
import { occurredAt } from '../../delivery-id.ts';
import { queueKeyOf } from '../queue/queue-ref.ts';
import type { AttemptResult } from './attempt-result.ts';

/** Bounds of the lag: from an immediate delivery to the end of the schedule. Seconds. */
const LAG_BOUNDS_S = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600, 86_400, 300_000];
const DURATION_BOUNDS_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15];
/** Maximum number of queues that are remembered. */
const MAX_RECOVERED = 10_000;
const BATCH_BOUNDS = [1, 2, 5, 10, 25, 50, 100, 256];

export interface DeliveryMetrics {
  /** Counts recorded results. @param offsetMs offset of the retry clock, by which deliveries were queued. */
  recorded(batch: readonly AttemptResult[], offsetMs: number): void;
  stale(attempts: number): void;
  /** Counts an attempt that was not made. */
  rescheduled(): void;
  /** Counts a step of the database's clock. Milliseconds. */
  clockStep(stepMs: number): void;
  noticed(kind: 'deactivated' | 'warned', percent: number): void;
  /** Counts a shop that has reached its byte limit of the minute. */
  byteLimitReached(): void;
}

/** Creates the metrics of attempts, their duration, and the lag of deliveries. */
export function deliveryMetrics(meter: Meter): DeliveryMetrics {
  const attempts = meter.createCounter('webhooks.attempts', { description: 'Attempts by result' });
  const duration = meter.createHistogram('webhooks.attempt.duration', {
    unit: 's',
    description: 'Duration of attempts',
    advice: { explicitBucketBoundaries: DURATION_BOUNDS_S },
  });
  const lag = meter.createHistogram('webhooks.delivery.lag.seconds', {
    unit: 's',
    description:
      'Time from the event to its arrival; for retries and replays from the time when they were queued',
    advice: { explicitBucketBoundaries: LAG_BOUNDS_S },
  });
  const batches = meter.createHistogram('webhooks.results.batch', {
    description: 'Results recorded by one statement',
    advice: { explicitBucketBoundaries: BATCH_BOUNDS },
  });
  const stale = meter.createCounter('webhooks.results.stale', {
    description: 'Results that were not recorded because another process had taken the shard',
  });
  const rescheduled = meter.createCounter('webhooks.deliveries.rescheduled', {
    description: 'Attempts that this process could not make and rescheduled',
  });
  const clockSteps = meter.createCounter('webhooks.database_clock.steps', {
    description: 'Steps of the database clock, by direction',
  });
  const throttled = meter.createCounter('webhooks.shop_byte_limit_reached', {
    description: 'Times that a shop reached its byte limit of the minute',
  });
  const deactivated = meter.createCounter('webhooks.subscriptions.disabled', {
    description: 'Subscriptions that became inactive: only failures, or a 410',
  });
  const warned = meter.createCounter('webhooks.subscriptions.warned', {
    description: 'Warnings that a subscription will become inactive, by the percentage of the time',
  });
  /** When failing receivers took a delivery again, by queue. */
  const recovered = new Map<string, number>();
  /** The state of a receiver that took a delivery. What was queued before it recovered has waited for it, not for us. */
  const receiverOf = ({ isFailing, queuedAtMs, ...queue }: AttemptResult['due'], atMs: number) => {
    const key = queueKeyOf(queue);
    if (isFailing) {
      if (recovered.size >= MAX_RECOVERED) recovered.clear();
      recovered.set(key, atMs);
    }
    return isFailing || queuedAtMs < (recovered.get(key) ?? 0) ? 'failing' : 'healthy';
  };
  return {
    recorded(batch, offsetMs) {
      batches.record(batch.length);
      for (const { due, sent, ended } of batch) {
        if (!sent) continue;
        const { kind, durationMs, startedAt } = sent.result;
        attempts.add(1, { result: kind });
        duration.record(durationMs / 1_000, { result: kind });
        if (ended !== 'delivered') continue;
        const arrivedAt = startedAt.getTime() + durationMs;
        // Each arrival counts once: late first attempts are ours, unless their receiver fails.
        const since = due.isRetry ? due.queuedAtMs - offsetMs : occurredAt(due.id).getTime();
        lag.record(Math.max(0, arrivedAt - since) / 1_000, {
          attempt: due.isRetry ? 'retry' : 'first',
          receiver: receiverOf(due, arrivedAt + offsetMs),
        });
      }
    },
    stale: (count) => stale.add(count),
    rescheduled: () => rescheduled.add(1),
    clockStep: (stepMs) => clockSteps.add(1, { direction: stepMs < 0 ? 'back' : 'forward' }),
    byteLimitReached: () => throttled.add(1),
    noticed(kind, percent) {
      if (kind === 'deactivated') deactivated.add(1);
      else warned.add(1, { percent });
    },
  };
}

/** Adds gauges of the current state of this process. */
export function observeDelivery(
  meter: Meter,
  now: {
    readonly inFlight: () => number;
    readonly queues: () => number;
    readonly shopsThrottled: () => number;
    readonly oldestResultMs: () => number;
    readonly aheadOfDatabaseMs: () => number;
  },
): void {
  const gauge = (name: string, description: string, value: () => number, unit = ''): void => {
    meter
      .createObservableGauge(name, { description, ...(unit && { unit }) })
      .addCallback((result) => result.observe(value()));
  };
  gauge(
    'webhooks.shops_throttled',
    'Shops whose deliveries wait because the shop reached its byte limit of the minute',
    now.shopsThrottled,
  );
  gauge('webhooks.in_flight', 'Attempts that are open or not recorded yet', now.inFlight);
  gauge(
    'webhooks.results.oldest.age',
    'Time for which the oldest unrecorded delivery result has waited',
    () => now.oldestResultMs() / 1_000,
    's',
  );
  gauge(
    'webhooks.clock.difference',
    'Clock of this process, which signs requests, minus the clock of the database',
    () => now.aheadOfDatabaseMs() / 1_000,
    's',
  );
  gauge('webhooks.queues.active', 'Queues in memory', now.queues);
}
