import type { KeyObject } from 'node:crypto';
import { type Span, SpanKind } from '@opentelemetry/api';
import { payloadVersionServed } from '../../../contract/versions.ts';
import type { SigningKeys } from '../../../platform/outbound/signing-keys.ts';
import { currentTraceparent, inSpan, type Telemetry } from '../../../platform/telemetry.ts';
import { webhookIdOf } from '../../log/delivery.ts';
import { attemptHeaders } from '../../sender/headers.ts';
import type { Send } from '../../sender/send.ts';
import type { SendResult } from '../../sender/send-result.ts';
import { SECRETS } from '../../subscriptions/secrets.ts';
import type { Due } from '../queue/read-due.ts';
import type { AttemptResult } from '../results/attempt-result.ts';
import { pauseAfter } from './retry-schedule.ts';

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
export async function attempt(o: AttemptOptions, due: Due, token: bigint): Promise<AttemptResult> {
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
