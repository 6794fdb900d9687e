import type { Meter } from '@opentelemetry/api';
import type { Outcome } from '../sender/outcome.ts';
import type { Claimed } from './claim.ts';

/** Seconds: from at once to the end of the schedule. */
const LAG_BOUNDS_S = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600, 86_400, 300_000];
const DURATION_BOUNDS_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15];

export interface DeliveryMetrics {
  record(outcome: Outcome, claimed: Claimed): void;
}

/** Attempts by result, how long they take, how late deliveries arrive, how many are in flight. */
export function deliveryMetrics(meter: Meter, inFlight: () => number): DeliveryMetrics {
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
  meter
    .createObservableGauge('webhooks.in_flight', { description: 'Attempts in flight' })
    .addCallback((result) => result.observe(inFlight()));
  return {
    record(outcome, claimed) {
      attempts.add(1, { result: outcome.result });
      duration.record(outcome.durationMs / 1_000, { result: outcome.result });
      if (outcome.result !== 'delivered') return;
      const arrivedAt = outcome.startedAt.getTime() + outcome.durationMs;
      lag.record(Math.max(0, arrivedAt - claimed.createdAt.getTime()) / 1_000);
    },
  };
}
