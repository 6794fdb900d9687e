import { hash } from 'node:crypto';
import { type AttemptOutcome, NO_TIMING } from '../../../services/webhooks/sender/outcome.ts';
import type { Sending } from '../../../services/webhooks/sender/send.ts';

/** A request as it arrived. */
export interface Request {
  readonly url: string;
  readonly webhookId: string;
  readonly eventId: string;
  readonly sha256: string;
  readonly accepted: boolean;
}

/** Receivers of all addresses. Those of `failing` reject their first request. */
export interface Sink {
  readonly requests: readonly Request[];
  receive(sending: Sending): Promise<AttemptOutcome>;
}

export function createSink(failing: string): Sink {
  const requests: Request[] = [];
  return {
    requests,
    async receive({ url, headers, body }) {
      const accepted = url !== failing || requests.some((one) => one.url === url);
      requests.push({
        url,
        webhookId: headers['webhook-id'] ?? '',
        eventId: headers['X-Service-Event-Id'] ?? '',
        sha256: hash('sha256', body),
        accepted,
      });
      return {
        result: accepted ? 'delivered' : 'failed',
        startedAt: new Date(),
        durationMs: 1,
        timing: NO_TIMING,
        status: accepted ? 200 : 500,
        error: accepted ? '' : 'answered 500',
        excerpt: '',
        headers: '',
        retryAfterMs: undefined,
      };
    },
  };
}
