import type { Logger } from '../../../platform/log.ts';
import { within } from '../../../platform/within.ts';
import { OwnExhaustion } from '../../sender/failure.ts';
import type { Outcome } from '../../sender/outcome.ts';
import type { HealthChanges } from '../endpoint/health-changes.ts';
import type { QueueLoader } from '../queue/queue-loader.ts';
import type { Due } from '../queue/read-due.ts';
import type { AttemptResult } from '../results/attempt-result.ts';
import type { DeliveryMetrics } from '../results/metrics.ts';
import type { ResultWriter } from '../results/result-writer.ts';
import type { ActiveQueue, ActiveQueues } from '../scheduler/active-queues.ts';
import type { InFlightAttempts, TrackedAttempt } from '../scheduler/in-flight.ts';
import { type AttemptOptions, attempt } from './attempt.ts';
import { exhaustedPause, reschedulePause } from './retry-schedule.ts';
import { createRetrySlots } from './retry-slots.ts';
import { createSocketShortage } from './socket-shortage.ts';

export interface RunnerOptions extends AttemptOptions {
  readonly logger: Logger;
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  readonly healthChanges: HealthChanges;
  readonly loader: Pick<QueueLoader, 'endpointRecovered' | 'retryNowMs'>;
  readonly results: Pick<ResultWriter, 'add'>;
  readonly metrics: Pick<DeliveryMetrics, 'rescheduled'>;
}

/** Runs attempts in parallel: no endpoint waits for another. */
export interface AttemptRunner {
  /**
   * Starts the attempt of a delivery. Its result goes to the result writer.
   *
   * @param o.token of the lease of its shard.
   * @param o.onEnd called when the request has ended.
   */
  start(due: Due, o: { queue: ActiveQueue; token: bigint; onEnd: () => void }): void;
  /** Whether this process had no socket left a moment ago. No attempt should start then. */
  isShortOfSockets(): boolean;
  /** Resolves when no request is open, or after this time. Milliseconds. */
  drain(timeoutMs: number): Promise<void>;
}

/**
 * The retries of an endpoint are spread for this many failures in a row. Later its limits and its circuit limit them.
 */
const FIRST_FAILURES = 3;

export function createAttemptRunner(o: RunnerOptions): AttemptRunner {
  const { active, inFlight } = o;
  const open = new Set<Promise<void>>();
  const retrySlots = createRetrySlots();
  const shortage = createSocketShortage(o.logger);

  async function run(tracked: TrackedAttempt): Promise<void> {
    const leave = active.enter(tracked.endpointKey);
    const result = await resultOf(tracked);
    inFlight.complete(tracked);
    if (result.sent) noteHealth(tracked, result.sent.outcome);
    o.results.add(spread(result, tracked.endpointKey));
    leave();
  }

  async function resultOf({ due, token }: TrackedAttempt): Promise<AttemptResult> {
    try {
      return await attempt(o, due, token);
    } catch (error) {
      return { due, token, sent: undefined, ended: null, pauseMs: pauseUnmade(error, due) };
    }
  }

  /** The attempt was not made, for a reason on our side. Returns the pause. Milliseconds. */
  function pauseUnmade(error: unknown, due: Due): number {
    const waitedMs = o.loader.retryNowMs() - due.queuedAtMs;
    if (error instanceof OwnExhaustion) {
      shortage.note(error);
      return exhaustedPause(waitedMs);
    }
    o.logger.error({ err: error, delivery: due.id }, 'attempt not made, rescheduled');
    o.metrics.rescheduled();
    return reschedulePause(waitedMs);
  }

  /** Spreads the retries of endpoints that start to fail at the same time. */
  function spread(result: AttemptResult, endpointKey: string): AttemptResult {
    const failures = active.health(endpointKey)?.failures ?? 0;
    const isRetried = result.sent !== undefined && result.ended === null;
    if (!isRetried || failures === 0 || failures > FIRST_FAILURES) return result;
    return { ...result, pauseMs: retrySlots.take(result.pauseMs) };
  }

  function noteHealth({ due, endpointKey, token }: TrackedAttempt, outcome: Outcome): void {
    const { result, status } = outcome;
    const sign = { result, status, deliveryId: due.id, atMs: o.loader.retryNowMs() };
    const noted = active.note(endpointKey, sign);
    if (!noted) return;
    const { shopId, endpointId, shard } = due;
    o.healthChanges.set(endpointKey, { shopId, endpointId, shard, token, health: noted.health });
    if (noted.isClosed) o.loader.endpointRecovered({ shopId, endpointId });
  }

  return {
    start(due, { queue, token, onEnd }) {
      const { endpointKey, key: queueKey } = queue;
      const { healthClass } = active.capacity(endpointKey, inFlight.ofEndpoint(endpointKey));
      const startedMs = performance.now();
      const tracked = inFlight.begin({ due, queueKey, endpointKey, token, healthClass, startedMs });
      const running = run(tracked).finally(() => {
        open.delete(running);
        onEnd();
      });
      open.add(running);
    },
    isShortOfSockets: shortage.isNow,
    async drain(timeoutMs) {
      await within(timeoutMs, Promise.all(open));
    },
  };
}
