import { describeFailure, isTimeout, TooLate } from '../../platform/outbound/failure.ts';
import { parseRetryAfter, respondedAt } from '../../platform/outbound/retry-after.ts';
import { packHeaders } from './response-headers.ts';
import type { ResponseReader } from './response-reader.ts';

/**
 * Durations of the parts of an attempt, in whole milliseconds. Null for parts that did not end or did not happen. On a
 * reused connection there is no name resolution, connect or handshake.
 */
export interface Timing {
  /** Duration of the name resolution. */
  readonly dnsMs: number | null;
  /** Duration of the TCP connect. */
  readonly connectMs: number | null;
  /** Duration of the TLS handshake. */
  readonly tlsMs: number | null;
  /** From the end of writing the request to the first byte of the response. */
  readonly waitMs: number | null;
  /** From the first byte to the end of the response. */
  readonly readMs: number | null;
}

/** The result of one attempt. `delivery/results/attempt-result.ts` adds what it means for the delivery. */
export interface SendResult {
  /** `gone` is a 410. `throttled` is a 429. `timeout` is an attempt that reached its time limit. */
  readonly kind: 'delivered' | 'gone' | 'throttled' | 'failed' | 'timeout';
  readonly startedAt: Date;
  readonly durationMs: number;
  readonly timing: Timing;
  /**
   * HTTP status; 0 when there was no response. When the response is incomplete, the attempt is a failure, but the
   * status and headers are those that arrived.
   */
  readonly status: number;
  /** The error in our own words; empty on success. */
  readonly error: string;
  /** The first KiB of the response, as text. */
  readonly excerpt: string;
  /** The headers of the response; see `packHeaders`. */
  readonly headers: string;
  /** The pause that the receiver requested; see `parseRetryAfter`. */
  readonly retryAfterMs: number | undefined;
}

/** The timing of an attempt without a request. */
export const NO_TIMING: Timing = {
  dnsMs: null,
  connectMs: null,
  tlsMs: null,
  waitMs: null,
  readMs: null,
};

/** The timing during the attempt, in fractions of milliseconds. */
export type Opening = { -readonly [Part in keyof Timing]: Timing[Part] };

/** A result without its times. */
export type UntimedResult = Omit<SendResult, 'startedAt' | 'durationMs' | 'timing'>;

/** Returns the kind of result for a complete response. Any 2xx is a success; a redirect is a failure. */
function kindOf(status: number): SendResult['kind'] {
  if (isSuccess(status)) return 'delivered';
  if (status === 410) return 'gone';
  return status === 429 ? 'throttled' : 'failed';
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/**
 * Returns the result for a response. Fills in the parts of the timing that belong to the response.
 *
 * @param now the time with which dates are compared when the response has no `Date` header.
 */
export function resultOf(response: ResponseReader, timing: Opening, now: Date): UntimedResult {
  const { status, sentAt, beganAt, endedAt, error } = response;
  if (sentAt !== undefined && beganAt !== undefined) timing.waitMs = beganAt - sentAt;
  const retryAfterMs = isSuccess(status)
    ? undefined
    : parseRetryAfter(response.headers['retry-after'], respondedAt(response.headers.date, now));
  const stored = { excerpt: response.excerpt(), headers: packHeaders(response.headers) };
  if (error) {
    const text = describeFailure(error);
    const hasNoEnd = status !== 0 && error instanceof TooLate;
    const missing = hasNoEnd ? `: its end is missing${lengthHint(response)}` : '';
    const result = { ...failed(error, text + missing), status, ...stored, retryAfterMs };
    return status === 429 && result.kind === 'failed' ? { ...result, kind: 'throttled' } : result;
  }
  if (beganAt !== undefined && endedAt !== undefined) timing.readMs = endedAt - beganAt;
  const kind = kindOf(status);
  const isDelivered = kind === 'delivered';
  return {
    kind,
    status,
    error: isDelivered ? '' : `answered ${status}`,
    ...stored,
    retryAfterMs,
  };
}

/** What a receiver must change whose response could end only with its connection. */
function lengthHint({ headers }: ResponseReader): string {
  if (headers['content-length'] ?? headers['transfer-encoding']) return '';
  return ', because it has no Content-Length and the connection stays open';
}

/** Returns the result for a failure. Its text is by default that of {@link describeFailure}. */
export function failed(error: unknown, text = describeFailure(error)): UntimedResult {
  return {
    kind: isTimeout(error) ? 'timeout' : 'failed',
    status: 0,
    error: text,
    excerpt: '',
    headers: '',
    retryAfterMs: undefined,
  };
}

/** Rounds all durations to whole milliseconds, in place. */
export function round(timing: Opening): void {
  timing.dnsMs = timing.dnsMs === null ? null : Math.round(timing.dnsMs);
  timing.connectMs = timing.connectMs === null ? null : Math.round(timing.connectMs);
  timing.tlsMs = timing.tlsMs === null ? null : Math.round(timing.tlsMs);
  timing.waitMs = timing.waitMs === null ? null : Math.round(timing.waitMs);
  timing.readMs = timing.readMs === null ? null : Math.round(timing.readMs);
}
