import { type Dispatcher, errors, request } from 'undici';
import { judgeUrl, type UrlPolicy } from '../guard/guard.ts';
import { AddressRefused } from './agent.ts';
import { parseRetryAfter } from './retry-after.ts';

/**
 * Where the time of an attempt went: milliseconds, null for what did not happen (on a connection
 * that was open already neither name, connection nor handshake) or did not end.
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

/** What one request came to. */
export interface Outcome {
  /** `gone` is a 410, `throttled` a 429, `timeout` an attempt that ran out of time. */
  readonly result: 'delivered' | 'gone' | 'throttled' | 'failed' | 'timeout';
  readonly startedAt: Date;
  readonly durationMs: number;
  readonly timing: Timing;
  /** HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** What went wrong, in our words; empty on success. */
  readonly error: string;
  /** The first KiB of the answer, as text. */
  readonly excerpt: string;
  readonly retryAfterMs: number | undefined;
}

export interface Sending {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** Everything from the name's resolution to the last byte of the answer. Milliseconds. */
export const ATTEMPT_MS = 15_000;

/** Answers are read this far, so that a connection can be used again, and no further. */
const MAX_ANSWER_BYTES = 64 * 1024;
const EXCERPT_BYTES = 1024;
const GONE = 410;
const TOO_MANY = 429;

/** Nothing was sent. */
export const NO_TIMING: Timing = {
  dnsMs: null,
  connectMs: null,
  tlsMs: null,
  waitMs: null,
  readMs: null,
};

export type Send = (sending: Sending) => Promise<Outcome>;

/**
 * Makes one attempt: an HTTP POST with a total deadline. Never throws: whatever happens is the
 * attempt's outcome. Success is any 2xx, read to its end (or to our limit) in time; a redirect is
 * a failure.
 */
export function createSender(o: {
  dispatcher: Dispatcher;
  policy: UrlPolicy;
  attemptMs?: number;
}): Send {
  const attemptMs = o.attemptMs ?? ATTEMPT_MS;
  return async (sending) => {
    const startedAt = new Date();
    const start = performance.now();
    const finish = (rest: Omit<Outcome, 'startedAt' | 'durationMs' | 'timing'>): Outcome => ({
      startedAt,
      durationMs: Math.round(performance.now() - start),
      timing: NO_TIMING,
      ...rest,
    });
    const verdict = judgeUrl(sending.url, o.policy);
    if (!verdict.ok) return finish(failure(`address not allowed: it ${verdict.message}`));
    const deadline = AbortSignal.timeout(attemptMs);
    try {
      const answer = await post(verdict.url, sending, { dispatcher: o.dispatcher, deadline });
      return finish(judgeAnswer(answer));
    } catch (error) {
      if (deadline.aborted) {
        return finish({
          ...failure(`no complete answer within ${attemptMs} ms`),
          result: 'timeout',
        });
      }
      return finish(failure(describe(error), error));
    }
  };
}

interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly excerpt: string;
}

async function post(
  url: URL,
  sending: Sending,
  o: { dispatcher: Dispatcher; deadline: AbortSignal },
): Promise<Answer> {
  const response = await request(url, {
    method: 'POST',
    headers: sending.headers,
    body: sending.body,
    dispatcher: o.dispatcher,
    signal: o.deadline,
    // The deadline covers all of it.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const retryAfter = response.headers['retry-after'];
  return {
    status: response.statusCode,
    retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
    excerpt: await readExcerpt(response.body),
  };
}

async function readExcerpt(body: AsyncIterable<Uint8Array>): Promise<string> {
  const start: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    if (bytes < EXCERPT_BYTES) start.push(chunk);
    bytes += chunk.length;
    // Leaving the loop destroys the body and its connection.
    if (bytes > MAX_ANSWER_BYTES) break;
  }
  const text = Buffer.concat(start).subarray(0, EXCERPT_BYTES).toString('utf8');
  // PostgreSQL keeps no NUL in text.
  return text.replaceAll('\0', '\u{fffd}');
}

function judgeAnswer({
  status,
  retryAfter,
  excerpt,
}: Answer): Omit<Outcome, 'startedAt' | 'durationMs' | 'timing'> {
  if (status >= 200 && status < 300) {
    return { result: 'delivered', status, error: '', excerpt, retryAfterMs: undefined };
  }
  return {
    result: status === GONE ? 'gone' : status === TOO_MANY ? 'throttled' : 'failed',
    status,
    error: `answered ${status}`,
    excerpt,
    retryAfterMs: parseRetryAfter(retryAfter, new Date()),
  };
}

function failure(
  error: string,
  cause?: unknown,
): Omit<Outcome, 'startedAt' | 'durationMs' | 'timing'> {
  const isTimeout = cause instanceof errors.ConnectTimeoutError;
  return {
    result: isTimeout ? 'timeout' : 'failed',
    status: 0,
    error,
    excerpt: '',
    retryAfterMs: undefined,
  };
}

/** What the log says of a failed connection: never an inside address, which a driver's text may hold. */
function describe(error: unknown): string {
  if (error instanceof AddressRefused) return 'address not allowed';
  const code = codeOf(error);
  return TEXTS[code] ?? (code === '' ? 'connection failed' : `connection failed (${code})`);
}

const TEXTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  ENOTFOUND: 'host name not found',
  ENODATA: 'host name has no address',
  ETIMEOUT: 'host name not resolved in time',
  UND_ERR_SOCKET: 'connection closed without an answer',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
  UND_ERR_HEADERS_OVERFLOW: 'headers of the answer are too large',
  CERT_HAS_EXPIRED: 'certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'certificate is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'certificate is not trusted',
  ERR_TLS_CERT_ALTNAME_INVALID: 'certificate is for another host',
};

/** By shape: several addresses fail as one error that holds theirs. */
function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  if ('errors' in error && Array.isArray(error.errors)) return codeOf(error.errors[0]);
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}
