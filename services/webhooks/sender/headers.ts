import type { KeyObject } from 'node:crypto';
import { environmentHeaders } from '../../contract/environment.ts';
import { testEventHeaders } from '../../contract/test-header.ts';
import { sign } from '../../platform/outbound/signature.ts';

const USER_AGENT = 'Returns-Management-Service/1 (webhooks)';

/** The values from which the headers of one attempt are made. */
export interface HeaderSource {
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
    ...(source.traceparent !== '' && { traceparent: source.traceparent }),
  };
}
