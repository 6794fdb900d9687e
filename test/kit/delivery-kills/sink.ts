import { hash } from 'node:crypto';
import type { Sending } from '../../../services/webhooks/sender/send.ts';
import { NO_TIMING, type SendResult } from '../../../services/webhooks/sender/send-result.ts';

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
  receive(sending: Sending): Promise<SendResult>;
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
        kind: accepted ? 'delivered' : 'failed',
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
