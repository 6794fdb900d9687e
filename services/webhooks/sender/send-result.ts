import type { IncomingHttpHeaders } from 'node:http';
import { describeFailure, isTimeout, TooLate } from '../../platform/outbound/failure.ts';
import { parseRetryAfter, respondedAt } from '../../platform/outbound/retry-after.ts';
import type { ResponseReader } from './response-reader.ts';

/**
 * Durations of the parts of an attempt, in whole milliseconds. Null for parts that did not end or did not happen. On a
 * reused connection there is no name resolution, connect or handshake.
 */
interface Timing {
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

/** Maximum number of headers of a response that are stored. */
export const MAX_HEADERS = 20;
/** Maximum size of the stored headers of one response, as JSON. Bytes. */
export const HEADERS_BYTES = 2_048;
/** Maximum length of a name or value that is stored. UTF-16 code units. */
const MAX_LENGTH = 200;
/** Bytes that are kept free for the entry about headers that were left out. */
const REST_BYTES = 64;

/**
 * Marks the end of a text that was cut. It is also the name of the entry about headers that were left out. No header
 * has this name.
 */
const CUT = '…';
/** Replaces a value that may be a credential. */
export const LEFT_OUT = '(not stored)';

/** Matches names of headers whose values may be credentials of the receiver. */
const SECRET_NAME =
  /cookie|auth|token|secret|passw|credential|session|signature|csrf|xsrf|jwt|api-?key|access-?key/;
/**
 * Challenges. They are no credentials, and explain a 401. Values of other authentication headers may be credentials.
 */
const CHALLENGES: ReadonlySet<string> = new Set(['www-authenticate', 'proxy-authenticate']);
/** Matches a value that is a credential of an HTTP scheme, or a signed token. The header may have any name. */
const SECRET_VALUE = /^\s*(?:bearer|basic|digest|negotiate)\s|\beyJ[\w-]{8}/i;
/** Matches a challenge that contains data of an authentication in progress, such as `Negotiate oYG2…`. */
const CHALLENGE_DATA = /^\s*(?:negotiate|ntlm|kerberos)\s/i;
/** Headers whose values are addresses. Their queries often contain tokens, so only the other parts are stored. */
const ADDRESSES: ReadonlySet<string> = new Set([
  'location',
  'content-location',
  'refresh',
  'link',
  'referer',
]);

/**
 * Returns the headers of a response in the form in which they are stored: a JSON object of texts, in their order, with
 * at most 20 headers and 2 KiB; empty when there are none. Longer names and values are cut and end with `…`. `(not
 * stored)` replaces values that may be credentials. The entry `…` says how many headers were left out.
 */
export function packHeaders(headers: IncomingHttpHeaders): string {
  const all = Object.entries(headers).filter(([, value]) => value !== undefined);
  if (all.length === 0) return '';
  const packed: [string, string][] = [];
  let bytes = '{}'.length;
  for (const [name, value] of all.slice(0, MAX_HEADERS)) {
    const entry = [cut(textOf(name)), storedValue(name, textOf(value))] as const;
    // The size includes the quotes, the colon and the comma of the entry.
    const size = Buffer.byteLength(JSON.stringify(entry));
    if (bytes + size + REST_BYTES > HEADERS_BYTES) break;
    bytes += size;
    packed.push([...entry]);
  }
  const rest = all.length - packed.length;
  if (rest > 0) packed.push([CUT, `${rest} more, not stored`]);
  return JSON.stringify(Object.fromEntries(packed));
}

function storedValue(name: string, value: string): string {
  if (CHALLENGES.has(name)) return CHALLENGE_DATA.test(value) ? LEFT_OUT : cut(value);
  if (SECRET_NAME.test(name) || SECRET_VALUE.test(value)) return LEFT_OUT;
  return cut(ADDRESSES.has(name) ? withoutSecrets(value) : value);
}

/** Returns an address without its user, query and fragment. */
function withoutSecrets(address: string): string {
  return address.replace(/\/\/[^/?#]*@/g, '//').replace(/[?#].*$/s, `?${CUT}`);
}

/**
 * Returns the beginning of a value, with spaces in place of control characters, because PostgreSQL cannot store NUL.
 */
function textOf(value: string | readonly string[] | undefined): string {
  const text = typeof value === 'string' ? value : (value ?? []).join(', ');
  return text.slice(0, 2 * MAX_LENGTH).replace(/\p{Cc}/gu, ' ');
}

function cut(text: string): string {
  return text.length <= MAX_LENGTH ? text : `${text.slice(0, MAX_LENGTH).toWellFormed()}${CUT}`;
}
