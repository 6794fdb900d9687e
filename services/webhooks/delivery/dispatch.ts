import { SpanKind } from '@opentelemetry/api';
import type pg from 'pg';
import { payloadVersionServed } from '../../contract/versions.ts';
import type { Logger } from '../../platform/log.ts';
import { currentTraceparent, inSpan, type Telemetry } from '../../platform/telemetry.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import { webhookIdOf } from '../log/delivery.ts';
import { headersOf } from '../sender/headers.ts';
import type { Outcome } from '../sender/outcome.ts';
import type { Send } from '../sender/send.ts';
import { signingKeyOf } from '../sender/signature.ts';
import type { Keyring } from '../subscriptions/keyring.ts';
import { secretsOf } from '../subscriptions/secrets.ts';
import { type Claimed, claimDue, reapLeases } from './claim.ts';
import { deliveryMetrics } from './metrics.ts';
import type { RetryClock } from './retry-clock.ts';
import { adjustCap, drop, release, settle } from './settle.ts';
import { untilSettled } from './until-settled.ts';

export interface DispatchOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  readonly clock: RetryClock;
  /** Today in the version calendar. */
  readonly today: () => Date;
  readonly keyring: Keyring;
  readonly send: Send;
  /** Most attempts in flight in this process. */
  readonly concurrency: number;
}

export interface Dispatcher extends Worker {
  /** Looks for due deliveries at once. */
  wake(): void;
}

/** Retries become due by themselves: how often to look. Milliseconds. */
const POLL_MS = 500;
const REAP_MS = 2_000;

/**
 * Claims what is due and sends it, until stopped; `stop` waits for the attempts in flight.
 *
 * A claim is never waited for by an attempt, nor an attempt by a claim: a hanging endpoint holds
 * its own places and nobody else's.
 */
export function startDispatching(o: DispatchOptions): Dispatcher {
  const inFlight = new Set<Promise<void>>();
  const metrics = deliveryMetrics(o.telemetry.meter, () => inFlight.size);
  let reapedAt = Number.NEGATIVE_INFINITY;

  const begin = (claimed: Claimed): void => {
    const work = attempt(o, claimed)
      .then((outcome) => {
        if (outcome) metrics.record(outcome, claimed);
      })
      .catch((error: unknown) => {
        o.logger.error({ err: error, delivery: claimed.id }, 'attempt was not settled');
      })
      .finally(() => {
        inFlight.delete(work);
        loop.wake();
      });
    inFlight.add(work);
  };

  const loop = startLoop({
    name: 'dispatch',
    idleMs: POLL_MS,
    logger: o.logger,
    async step(signal) {
      if (performance.now() - reapedAt > REAP_MS) {
        await reapLeases(o.pool);
        reapedAt = performance.now();
      }
      const limit = o.concurrency - inFlight.size;
      if (limit <= 0) return 'idle';
      const claimed = await claimDue(o.pool, { limit, offsetMs: o.clock.offsetMs() });
      if (signal.aborted) {
        await Promise.all(claimed.map((one) => release(o.pool, one)));
        return 'idle';
      }
      claimed.forEach(begin);
      return claimed.length === limit ? 'again' : 'idle';
    },
  });

  return {
    wake: () => loop.wake(),
    async stop() {
      await loop.stop();
      await Promise.all(inFlight);
    },
  };
}

/**
 * One delivery, once: signed, sent, settled, as part of the trace of its event.
 *
 * @returns undefined when there is nothing to send, or nobody to send it to: it is dropped.
 */
function attempt(o: DispatchOptions, claimed: Claimed): Promise<Outcome | undefined> {
  return inSpan(
    o.telemetry.tracer,
    {
      name: 'webhook',
      kind: SpanKind.CLIENT,
      traceparent: claimed.traceparent,
      attributes: { 'rms.trigger': claimed.trigger, 'rms.attempt': claimed.roundAttempts + 1 },
    },
    async (span) => {
      const sent = await send(o, claimed);
      if (!sent) {
        await untilSettled(() => drop(o.pool, claimed));
        return undefined;
      }
      const { headers, outcome } = sent;
      span.setAttribute('http.response.status_code', outcome.status);
      const isOurs = await untilSettled(() =>
        settle(o.pool, { claimed, headers, outcome }, o.clock.offsetMs()),
      );
      if (isOurs) await adjustCap(o.pool, { claimed, outcome });
      else o.logger.warn({ delivery: claimed.id }, 'lease was lost before the attempt ended');
      return outcome;
    },
  );
}

/** undefined: not sent, for want of the payload or of the subscription. */
async function send(o: DispatchOptions, claimed: Claimed) {
  const { shopId, subscriptionId } = claimed;
  const secrets = await secretsOf(o.pool, { shopId, subscriptionId }, o.keyring);
  // A subscription that was deleted a moment ago has no secrets, and gets nothing any more.
  if (!claimed.body || secrets.length === 0) return undefined;
  const served = payloadVersionServed(claimed.apiVersion, o.today());
  const headers = headersOf(
    {
      webhookId: webhookIdOf(claimed.id),
      trigger: claimed.trigger,
      eventId: claimed.eventId,
      apiVersion: claimed.apiVersion,
      sunset: served.version === claimed.apiVersion ? served.headers.Sunset : undefined,
      revision: claimed.revision,
      traceparent: currentTraceparent(),
      keys: secrets.map((secret) => signingKeyOf(secret.value)),
      body: claimed.body,
    },
    new Date(),
  );
  const outcome = await o.send({ url: claimed.url, headers, body: claimed.body });
  return { headers, outcome };
}
