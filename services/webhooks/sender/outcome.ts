import type { Answer } from './answer.ts';
import { describeFailure, isTooLate } from './failure.ts';
import { answeredAt, parseRetryAfter } from './retry-after.ts';

/**
 * Where the time of an attempt went: whole milliseconds, null for what did not happen (on a
 * connection that was open already neither name, connection nor handshake) or did not end.
 */
export interface Timing {
  /** The name's resolution. */
  readonly dnsMs: number | null;
  /** The TCP connection. */
  readonly connectMs: number | null;
  /** The TLS handshake. */
  readonly tlsMs: number | null;
  /** From the request, written, to the first byte of the answer. */
  readonly waitMs: number | null;
  /** From there to the answer's end. */
  readonly readMs: number | null;
}

/** What one attempt came to. */
export interface Outcome {
  /** `gone` is a 410, `throttled` a 429, `timeout` an attempt that ran out of time. */
  readonly result: 'delivered' | 'gone' | 'throttled' | 'failed' | 'timeout';
  readonly startedAt: Date;
  readonly durationMs: number;
  readonly timing: Timing;
  /**
   * HTTP status; 0 when no answer came. An answer that broke off has one, and is a failure: what its
   * headers asked for counts all the same.
   */
  readonly status: number;
  /** What went wrong, in our words; empty on success. */
  readonly error: string;
  /** The first KiB of the answer, as text. */
  readonly excerpt: string;
  /** What the receiver asked for; see `parseRetryAfter`. */
  readonly retryAfterMs: number | undefined;
}

/** Nothing was sent. */
export const NO_TIMING: Timing = {
  dnsMs: null,
  connectMs: null,
  tlsMs: null,
  waitMs: null,
  readMs: null,
};

/** The timing while it is being taken, in fractions of milliseconds. */
export type Opening = { -readonly [Part in keyof Timing]: Timing[Part] };

/** What an outcome says besides when. */
export type Rest = Omit<Outcome, 'startedAt' | 'durationMs' | 'timing'>;

/** The result that a complete answer means. Any 2xx is success; a redirect is a failure. */
function resultOf(status: number): Outcome['result'] {
  if (isSuccess(status)) return 'delivered';
  if (status === 410) return 'gone';
  return status === 429 ? 'throttled' : 'failed';
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/**
 * What an answer means; its part of the timing is filled in.
 *
 * @param now which a date in it is measured against when it does not tell its own time.
 */
export function judge(answer: Answer, timing: Opening, now: Date): Rest {
  const { status, sentAt, beganAt, endedAt, error } = answer;
  if (sentAt !== undefined && beganAt !== undefined) timing.waitMs = beganAt - sentAt;
  const retryAfterMs = isSuccess(status)
    ? undefined
    : parseRetryAfter(answer.retryAfter, answeredAt(answer.date, now));
  if (error) {
    const rest = { ...failed(error), status, excerpt: answer.excerpt(), retryAfterMs };
    return status === 429 && rest.result === 'failed' ? { ...rest, result: 'throttled' } : rest;
  }
  if (beganAt !== undefined && endedAt !== undefined) timing.readMs = endedAt - beganAt;
  const result = resultOf(status);
  const isDelivered = result === 'delivered';
  return {
    result,
    status,
    error: isDelivered ? '' : `answered ${status}`,
    excerpt: answer.excerpt(),
    retryAfterMs,
  };
}

/** What a failure means, by default in the words of {@link describeFailure}. */
export function failed(error: unknown, text = describeFailure(error)): Rest {
  return {
    result: isTooLate(error) ? 'timeout' : 'failed',
    status: 0,
    error: text,
    excerpt: '',
    retryAfterMs: undefined,
  };
}

/** Whole milliseconds, in place. */
export function round(timing: Opening): void {
  timing.dnsMs = timing.dnsMs === null ? null : Math.round(timing.dnsMs);
  timing.connectMs = timing.connectMs === null ? null : Math.round(timing.connectMs);
  timing.tlsMs = timing.tlsMs === null ? null : Math.round(timing.tlsMs);
  timing.waitMs = timing.waitMs === null ? null : Math.round(timing.waitMs);
  timing.readMs = timing.readMs === null ? null : Math.round(timing.readMs);
}
