import type { KeyObject } from 'node:crypto';
import { type Span, SpanKind } from '@opentelemetry/api';
import { environmentHeaders } from '../../../contract/environment.ts';
import { testEventHeaders } from '../../../contract/test-header.ts';
import { payloadVersionServed } from '../../../contract/versions.ts';
import { NoSocketLeft } from '../../../platform/outbound/failure.ts';
import { sign } from '../../../platform/outbound/signature.ts';
import type { SigningKeys } from '../../../platform/outbound/signing-keys.ts';
import { within } from '../../../platform/process/within.ts';
import type { Logger } from '../../../platform/telemetry/log.ts';
import { logSeldom } from '../../../platform/telemetry/log-seldom.ts';
import {
  currentTraceparent,
  inSpan,
  type Telemetry,
} from '../../../platform/telemetry/telemetry.ts';
import { webhookIdOf } from '../../log/delivery.ts';
import { NetworkLimited } from '../../sender/network-limit.ts';
import type { Send } from '../../sender/send.ts';
import type { SendResult } from '../../sender/send-result.ts';
import { SECRETS } from '../../subscriptions/secrets.ts';
import type { HealthChanges } from '../endpoint/health-changes.ts';
import type { NetworkHolds } from '../endpoint/network-holds.ts';
import type { QueueLoader } from '../queue/queue-loader.ts';
import type { Due } from '../queue/read-due.ts';
import type { AttemptResult } from '../results/attempt-result.ts';
import type { DeliveryMetrics } from '../results/metrics.ts';
import type { ResultWriter } from '../results/result-writer.ts';
import type { ActiveQueue } from '../scheduler/active-queue.ts';
import type { ActiveQueues } from '../scheduler/active-queues.ts';
import type { InFlightAttempts, TrackedAttempt } from '../scheduler/in-flight.ts';
import { createRetrySlots, noSocketPause, pauseAfter, reschedulePause } from './retry-schedule.ts';

interface RunnerOptions extends AttemptOptions {
  readonly logger: Logger;
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  readonly healthChanges: HealthChanges;
  readonly holds: Pick<NetworkHolds, 'hold'>;
  readonly loader: Pick<QueueLoader, 'endpointRecovered' | 'notify' | 'retryNowMs'>;
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
  readonly #seldomDelayed = logSeldom(LOG_EVERY_MS);
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
    if (result?.sent) this.#noteHealth(tracked, result.sent.result);
    if (result) results.add(this.#spread(result, tracked.endpointKey));
    else this.#putBack(tracked);
    release();
  }

  /** Returns undefined when the delivery must wait, because its receiver is at its limit. */
  async #resultOf({ due, token }: TrackedAttempt): Promise<AttemptResult | undefined> {
    try {
      return await attempt(this.#o, due, token);
    } catch (error) {
      if (error instanceof NetworkLimited) {
        this.#o.holds.hold(due, error);
        return undefined;
      }
      return { due, token, sent: undefined, ended: null, pauseMs: this.#pauseAfter(error, due) };
    }
  }

  /** Leaves a delivery in its queue as it was read. The scheduler postpones the queues of its endpoint. */
  #putBack({ due, queueKey: key }: TrackedAttempt): void {
    const { inFlight, loader, logger } = this.#o;
    inFlight.remove(due.id);
    loader.notify({ keys: [key], isChange: false });
    this.#seldomDelayed((deliveries) =>
      logger.warn(
        { shop: due.shopId, deliveries },
        'receiver without a 2xx is at its limit, deliveries delayed',
      ),
    );
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

export interface AttemptOptions {
  readonly telemetry: Telemetry;
  /** The current day of the version calendar. */
  readonly today: () => Date;
  readonly signingKeys: SigningKeys;
  readonly send: Send;
}

/**
 * Signs and sends one delivery, once, as a part of the trace of its event. Resolves to the result, which must be
 * recorded. Rejects when the attempt cannot be made, for example because the keyring lacks a key.
 */
async function attempt(o: AttemptOptions, due: Due, token: bigint): Promise<AttemptResult> {
  const { body } = due;
  // Without a body or a secret, no request is sent. This does not count as a failure of the subscription.
  if (!body || !due.encryptedSecrets) {
    return { due, token, sent: undefined, ended: 'dropped', pauseMs: 0 };
  }
  const keys = o.signingKeys(SECRETS.contextOf(due), due.encryptedSecrets);
  return inSpan(
    o.telemetry.tracer,
    {
      name: 'webhook',
      kind: SpanKind.CLIENT,
      traceparent: due.traceparent,
      attributes: { 'rms.trigger': due.trigger, 'rms.attempt': due.roundAttempts + 1 },
    },
    async (span) => resultOf(due, token, await post(o, { due, keys, body, span })),
  );
}

interface Request {
  readonly due: Due;
  readonly keys: readonly KeyObject[];
  readonly body: Buffer;
  readonly span: Span;
}

async function post(o: AttemptOptions, { due, keys, body, span }: Request) {
  const served = payloadVersionServed(due.apiVersion, o.today());
  const headers = attemptHeaders(
    {
      webhookId: webhookIdOf(due.id),
      trigger: due.trigger,
      eventId: due.eventId,
      apiVersion: due.apiVersion,
      sunset: served.version === due.apiVersion ? served.headers.Sunset : undefined,
      revision: due.revision,
      traceparent: currentTraceparent(),
      sandbox: due.isSandbox,
      test: due.isTest,
      keys,
      body,
    },
    new Date(),
  );
  const result = await o.send({ url: due.url, headers, body });
  span.setAttribute('http.response.status_code', result.status);
  return { result, headers: JSON.stringify(headers) };
}

/**
 * Decides how the delivery continues. No status ends a delivery except 2xx. A 410 is a failed attempt here, and the
 * delivery waits for its next attempt.
 * `results/count-failures.ts` then makes the subscription inactive, which holds the delivery.
 */
function resultOf(
  due: Due,
  token: bigint,
  sent: { result: SendResult; headers: string },
): AttemptResult {
  const { kind, retryAfterMs } = sent.result;
  if (kind === 'delivered') return { due, token, sent, ended: 'delivered', pauseMs: 0 };
  const pauseMs = pauseAfter(due.roundAttempts + 1, retryAfterMs);
  return pauseMs === undefined
    ? { due, token, sent, ended: 'exhausted', pauseMs: 0 }
    : { due, token, sent, ended: null, pauseMs };
}

const USER_AGENT = 'Returns-Management-Service/1 (webhooks)';

/** The values from which the headers of one attempt are made. */
interface HeaderSource {
  readonly webhookId: string;
  readonly trigger: string;
  readonly eventId: string;
  readonly apiVersion: string;
  /** HTTP date on which the version is retired; undefined unless the version is deprecated and not retired yet. */
  readonly sunset: string | undefined;
  /** Revision of the return, by which receivers order events; 0 when the event is not about one return. */
  readonly revision: bigint;
  readonly traceparent: string;
  /** Whether the shop is a sandbox. */
  readonly sandbox: boolean;
  /** Whether the event is a test event. */
  readonly test: boolean;
  /** The keys of the valid secrets, see `signingKeyOf`. */
  readonly keys: readonly KeyObject[];
  readonly body: Uint8Array;
}

/**
 * Returns the headers of one attempt: those of Standard Webhooks, and our own. `at` is the real time of the attempt.
 */
export function attemptHeaders(source: HeaderSource, at: Date): Record<string, string> {
  const timestamp = Math.floor(at.getTime() / 1_000);
  const { webhookId: id, body } = source;
  return {
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': sign(source.keys, { id, timestamp, body }),
    'X-Service-API-Version': source.apiVersion,
    'X-Service-Event': source.trigger,
    'X-Service-Event-Id': source.eventId,
    'X-Service-Sequence': source.revision.toString(),
    ...environmentHeaders(source),
    ...testEventHeaders(source),
    ...(source.sunset !== undefined && { Sunset: source.sunset }),
    // Without `tracestate`, which is for the monitoring of the callers and of the operator, not of receivers.
    ...(source.traceparent !== '' && { traceparent: source.traceparent }),
  };
}
