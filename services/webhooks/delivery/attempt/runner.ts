import type { Logger } from '../../../platform/log.ts';
import { logSeldom } from '../../../platform/log-seldom.ts';
import { NoSocketLeft } from '../../../platform/outbound/failure.ts';
import { within } from '../../../platform/within.ts';
import type { SendResult } from '../../sender/send-result.ts';
import type { HealthChanges } from '../endpoint/health-changes.ts';
import type { QueueLoader } from '../queue/queue-loader.ts';
import type { Due } from '../queue/read-due.ts';
import type { AttemptResult } from '../results/attempt-result.ts';
import type { DeliveryMetrics } from '../results/metrics.ts';
import type { ResultWriter } from '../results/result-writer.ts';
import type { ActiveQueue } from '../scheduler/active-queue.ts';
import type { ActiveQueues } from '../scheduler/active-queues.ts';
import type { InFlightAttempts, TrackedAttempt } from '../scheduler/in-flight.ts';
import { type AttemptOptions, attempt } from './attempt.ts';
import { noSocketPause, reschedulePause } from './retry-schedule.ts';
import { createRetrySlots } from './retry-slots.ts';

export interface RunnerOptions extends AttemptOptions {
  readonly logger: Logger;
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  readonly healthChanges: HealthChanges;
  readonly loader: Pick<QueueLoader, 'endpointRecovered' | 'retryNowMs'>;
  readonly results: Pick<ResultWriter, 'add'>;
  readonly metrics: Pick<DeliveryMetrics, 'rescheduled'>;
}

/**
 * Number of failures in a row from which the retries of an endpoint are not spread any more. From then on, its circuit
 * and its limit of attempts in flight bound them.
 */
const FIRST_FAILURES = 3;

/**
 * How long no delivery is read after a lack of sockets, so that attempts in flight can release theirs. Milliseconds.
 */
const SHORTAGE_MS = 500;
const LOG_EVERY_MS = 10_000;

/** Runs attempts in parallel. No endpoint waits for another one. */
export class AttemptRunner {
  readonly #o: RunnerOptions;
  readonly #open = new Set<Promise<void>>();
  readonly #retrySlots = createRetrySlots();
  readonly #seldom = logSeldom(LOG_EVERY_MS);
  /** No attempt starts before this time, because this process has no sockets left. */
  #shortUntilMs = 0;

  constructor(o: RunnerOptions) {
    this.#o = o;
  }

  /**
   * Starts the attempt of a delivery. Its result goes to the result writer.
   *
   * @param o.token token of the lease of its shard.
   * @param o.onEnd called when the request has ended.
   */
  start(due: Due, o: { queue: ActiveQueue; token: bigint; onEnd: () => void }): void {
    const { active, inFlight } = this.#o;
    const { endpointKey, key: queueKey } = o.queue;
    const open = inFlight.ofEndpoint(endpointKey);
    const { healthClass } = active.endpoints.capacity(endpointKey, open);
    const { token } = o;
    const startedMs = performance.now();
    const tracked = inFlight.begin({ due, queueKey, endpointKey, token, healthClass, startedMs });
    const running = this.#run(tracked).finally(() => {
      this.#open.delete(running);
      o.onEnd();
    });
    this.#open.add(running);
  }

  /** Whether this process had no socket left a moment ago. Then no attempt should start. */
  isShortOfSockets(): boolean {
    return performance.now() < this.#shortUntilMs;
  }

  /** Resolves when no request is open, or after this time. Milliseconds. */
  async drain(timeoutMs: number): Promise<void> {
    await within(timeoutMs, Promise.all(this.#open));
  }

  async #run(tracked: TrackedAttempt): Promise<void> {
    const { active, inFlight, results } = this.#o;
    const release = active.endpoints.keep(tracked.endpointKey);
    const result = await this.#resultOf(tracked);
    inFlight.complete(tracked);
    if (result.sent) this.#noteHealth(tracked, result.sent.result);
    results.add(this.#spread(result, tracked.endpointKey));
    release();
  }

  async #resultOf({ due, token }: TrackedAttempt): Promise<AttemptResult> {
    try {
      return await attempt(this.#o, due, token);
    } catch (error) {
      return { due, token, sent: undefined, ended: null, pauseMs: this.#pauseAfter(error, due) };
    }
  }

  /** Logs why this process could not make an attempt. Returns the pause of the delivery. Milliseconds. */
  #pauseAfter(error: unknown, due: Due): number {
    const waitedMs = this.#o.loader.retryNowMs() - due.queuedAtMs;
    if (error instanceof NoSocketLeft) {
      this.#noteShortage(error);
      return noSocketPause(waitedMs);
    }
    this.#o.logger.error({ err: error, delivery: due.id }, 'attempt not made, rescheduled');
    this.#o.metrics.rescheduled();
    return reschedulePause(waitedMs);
  }

  #noteShortage(error: NoSocketLeft): void {
    this.#shortUntilMs = performance.now() + SHORTAGE_MS;
    this.#seldom((attempts) =>
      this.#o.logger.error({ err: error, attempts }, 'no sockets left, deliveries delayed'),
    );
  }

  /** Spreads the retry of a failed delivery, when its endpoint has just begun to fail. */
  #spread(result: AttemptResult, endpointKey: string): AttemptResult {
    const failures = this.#o.active.endpoints.health(endpointKey)?.failures ?? 0;
    const isRetried = result.sent !== undefined && result.ended === null;
    if (!isRetried || failures === 0 || failures > FIRST_FAILURES) return result;
    return { ...result, pauseMs: this.#retrySlots.take(result.pauseMs) };
  }

  #noteHealth({ due, endpointKey, token }: TrackedAttempt, { kind, status }: SendResult): void {
    const { active, healthChanges, loader } = this.#o;
    const effect = { kind, status, deliveryId: due.id, atMs: loader.retryNowMs() };
    const noted = active.endpoints.note(endpointKey, effect);
    if (!noted) return;
    const { shopId, endpointId, shard } = due;
    healthChanges.set(endpointKey, { shopId, endpointId, shard, token, health: noted.health });
    if (noted.isClosed) loader.endpointRecovered({ shopId, endpointId });
  }
}
