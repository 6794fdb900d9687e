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
  /** HTTP status; 0 when no answer came. An answer that broke off has one, and is a failure. */
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

/** The result that a complete answer means. Any 2xx is success; a redirect is a failure. */
export function resultOf(status: number): Outcome['result'] {
  if (status >= 200 && status < 300) return 'delivered';
  if (status === 410) return 'gone';
  return status === 429 ? 'throttled' : 'failed';
}
