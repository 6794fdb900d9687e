import { type Meter, metrics as noMetrics } from '@opentelemetry/api';
import { judgeUrl, type UrlPolicy } from '../guard/guard.ts';
import type { Answer } from './answer.ts';
import { Connection } from './connection.ts';
import { Deadline } from './deadline.ts';
import { AddressRefused, codeOf, describeFailure, TooLate } from './failure.ts';
import { type SenderMetrics, senderMetrics } from './metrics.ts';
import { createResolver, type Resolve } from './names.ts';
import { type Dial, dialTcp, type OpenOptions, openSocket, trustOf } from './open-socket.ts';
import { NO_TIMING, type Outcome, resultOf, type Timing } from './outcome.ts';
import { createPool, type Pool } from './pool.ts';
import { parseRetryAfter } from './retry-after.ts';

/** Everything from the name's resolution to the last byte of the answer. Milliseconds. */
export const ATTEMPT_MS = 15_000;
/** Of that, until the connection stands and is encrypted. Milliseconds. */
const CONNECT_MS = 10_000;

export interface Sending {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export type Send = (sending: Sending) => Promise<Outcome>;

export interface Sender {
  /**
   * Makes one attempt: an HTTP POST with a total deadline. Never throws: whatever happens is the
   * attempt's outcome. Success is any 2xx, read to its end (or to our limit) in time; a redirect
   * is a failure.
   */
  readonly send: Send;
  /** Closes all connections; attempts still in flight fail. */
  close(): void;
}

export interface SenderOptions {
  readonly policy: UrlPolicy;
  readonly meter?: Meter;
  /** How names are resolved (tests). */
  readonly resolve?: Resolve;
  /** Total time of one attempt (tests). Milliseconds. */
  readonly attemptMs?: number;
  /** How connections are begun (tests). */
  readonly dial?: Dial;
  /** The only certificate authority to trust, in PEM (tests). */
  readonly ca?: string;
}

interface Parts extends OpenOptions {
  readonly pool: Pool;
  readonly metrics: SenderMetrics;
  readonly attemptMs: number;
}

/** The HTTP client of deliveries: public addresses only, connections kept alive, nothing unbounded. */
export function createSender(o: SenderOptions): Sender {
  const pool = createPool();
  const parts: Parts = {
    policy: o.policy,
    pool,
    metrics: senderMetrics(o.meter ?? noMetrics.getMeter('none'), pool),
    resolve: o.resolve ?? createResolver(),
    dial: o.dial ?? dialTcp,
    secureContext: trustOf(o.ca),
    attemptMs: o.attemptMs ?? ATTEMPT_MS,
  };
  return {
    send: (sending) => attempt(sending, parts),
    close: () => pool.close(),
  };
}

type Rest = Omit<Outcome, 'startedAt' | 'durationMs' | 'timing'>;
type Opening = { -readonly [Part in keyof Timing]: Timing[Part] };

async function attempt(sending: Sending, parts: Parts): Promise<Outcome> {
  const startedAt = new Date();
  const start = performance.now();
  const timing: Opening = { ...NO_TIMING };
  const finish = (rest: Rest): Outcome => ({
    startedAt,
    durationMs: Math.round(performance.now() - start),
    timing: rounded(timing),
    ...rest,
  });
  const verdict = judgeUrl(sending.url, parts.policy);
  if (!verdict.ok) {
    parts.metrics.refused('url');
    return finish(failed(undefined, `address not allowed: it ${verdict.message}`));
  }
  const deadline = new Deadline(parts.attemptMs);
  try {
    const answer = await exchange(parts, { url: verdict.url, sending, deadline, timing });
    return finish(judge(answer, timing));
  } catch (error) {
    if (error instanceof AddressRefused) parts.metrics.refused('connect');
    return finish(failed(error));
  } finally {
    deadline.cancel();
  }
}

interface Exchange {
  readonly url: URL;
  readonly sending: Sending;
  readonly deadline: Deadline;
  readonly timing: Opening;
}

/** On a connection that is open, if there is one; on a fresh one if that proves to be closed. */
async function exchange(parts: Parts, o: Exchange): Promise<Answer> {
  const kept = parts.pool.take(o.url.origin);
  if (kept) {
    const answer = await post(parts.pool, kept, o);
    if (!wasClosedBefore(answer)) return answer;
    parts.metrics.sentAgain();
  }
  const fresh = await open(parts, o);
  return post(parts.pool, fresh, o);
}

async function post(pool: Pool, connection: Connection, o: Exchange): Promise<Answer> {
  const { headers, body } = o.sending;
  const path = o.url.pathname + o.url.search;
  const answer = await connection.post({ path, headers, body }, o.deadline);
  pool.giveBack(connection);
  return answer;
}

/** What the other side does to a connection that it has closed, or is closing. */
const CLOSED: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

/**
 * Whether a kept connection was closed by the receiver, as it may be at any time, before a byte of
 * an answer came. The request is then sent again, as browsers do: its webhook-id makes that safe.
 */
function wasClosedBefore(answer: Answer): boolean {
  return answer.beganAt === undefined && CLOSED.has(codeOf(answer.error));
}

async function open(parts: Parts, { url, deadline, timing }: Exchange): Promise<Connection> {
  const opening = new AbortController();
  const timer = setTimeout(() => opening.abort(new TooLate('no connection in time')), CONNECT_MS);
  deadline.guard((reason) => opening.abort(reason));
  try {
    const socket = await openSocket(url, parts, { signal: opening.signal, timing });
    parts.metrics.opened();
    const connection = new Connection(url.origin, socket, parts.pool.forget);
    parts.pool.add(connection);
    return connection;
  } finally {
    clearTimeout(timer);
  }
}

function judge(answer: Answer, timing: Opening): Rest {
  const { status, sentAt, beganAt, endedAt, error } = answer;
  if (sentAt !== undefined && beganAt !== undefined) timing.waitMs = beganAt - sentAt;
  if (error) return { ...failed(error), status, excerpt: answer.excerpt() };
  if (beganAt !== undefined && endedAt !== undefined) timing.readMs = endedAt - beganAt;
  const result = resultOf(status);
  const isDelivered = result === 'delivered';
  return {
    result,
    status,
    error: isDelivered ? '' : `answered ${status}`,
    excerpt: answer.excerpt(),
    retryAfterMs: isDelivered ? undefined : parseRetryAfter(answer.retryAfter, new Date()),
  };
}

function failed(error: unknown, text = describeFailure(error)): Rest {
  return {
    result: error instanceof TooLate ? 'timeout' : 'failed',
    status: 0,
    error: text,
    excerpt: '',
    retryAfterMs: undefined,
  };
}

function rounded(timing: Timing): Timing {
  const whole = (ms: number | null): number | null => (ms === null ? null : Math.round(ms));
  return {
    dnsMs: whole(timing.dnsMs),
    connectMs: whole(timing.connectMs),
    tlsMs: whole(timing.tlsMs),
    waitMs: whole(timing.waitMs),
    readMs: whole(timing.readMs),
  };
}
