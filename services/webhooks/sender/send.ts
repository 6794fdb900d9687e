import { type Meter, metrics as noMetrics } from '@opentelemetry/api';
import type { UrlPolicy } from '../guard/guard.ts';
import type { Answer } from './answer.ts';
import { Connection } from './connection.ts';
import { Deadline } from './deadline.ts';
import {
  AddressRefused,
  codeOf,
  isNoSocketLeft,
  NOT_ALLOWED,
  NoSocketLeft,
  TooLate,
} from './failure.ts';
import { type SenderMetrics, senderMetrics } from './metrics.ts';
import { createResolver, type Resolve } from './names.ts';
import { type Dial, dialTcp, type OpenOptions, openSocket, trustOf } from './open-socket.ts';
import {
  type AttemptOutcome,
  failed,
  judge,
  NO_TIMING,
  type Opening,
  type Rest,
  round,
} from './outcome.ts';
import { Pool } from './pool.ts';
import { createTargets, type Target } from './target.ts';

/** From the resolution of the name to the last byte of the answer. Milliseconds. */
export const ATTEMPT_MS = 15_000;
/** The part of it until the connection is open and encrypted. Milliseconds. */
const CONNECT_MS = 10_000;

export interface Sending {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export type Send = (sending: Sending) => Promise<AttemptOutcome>;

export interface Sender {
  /**
   * Makes one attempt: an HTTP POST with a total deadline. Every failure is an outcome of the attempt. Success is any
   * 2xx that is read to its end (or to our limit) in time; a redirect is a failure.
   *
   * @throws only NoSocketLeft. It then does not count as an attempt.
   */
  readonly send: Send;
  /** Closes all connections. Attempts in flight fail. */
  close(): void;
}

export interface SenderOptions {
  readonly policy: UrlPolicy;
  readonly meter?: Meter;
  /** How names are resolved (tests). */
  readonly resolve?: Resolve;
  /** Total time of one attempt (tests). Milliseconds. */
  readonly attemptMs?: number;
  /** The time that dates in answers without a `Date` header are compared with; by default that of this machine. */
  readonly now?: () => Date;
  /** How connections are opened (tests). */
  readonly dial?: Dial;
  /** The only trusted certificate authority, in PEM (tests). */
  readonly ca?: string;
}

interface Parts extends OpenOptions {
  readonly targetOf: (url: string) => Target | string;
  readonly pool: Pool;
  readonly metrics: SenderMetrics;
  readonly attemptMs: number;
  readonly now: () => Date;
}

/** The HTTP client of deliveries: public addresses only, connections kept alive, everything limited. */
export function createSender(o: SenderOptions): Sender {
  const pool = new Pool();
  const parts: Parts = {
    policy: o.policy,
    targetOf: createTargets(o.policy),
    pool,
    metrics: senderMetrics(o.meter ?? noMetrics.getMeter('none'), pool),
    resolve: o.resolve ?? createResolver(),
    dial: o.dial ?? dialTcp,
    secureContext: trustOf(o.ca),
    attemptMs: o.attemptMs ?? ATTEMPT_MS,
    now: o.now ?? (() => new Date()),
  };
  return {
    send: (sending) => attempt(sending, parts),
    close: () => pool.close(),
  };
}

async function attempt(sending: Sending, parts: Parts): Promise<AttemptOutcome> {
  const startedAt = new Date();
  const start = performance.now();
  const timing: Opening = { ...NO_TIMING };
  const finish = (rest: Rest): AttemptOutcome => {
    round(timing);
    const durationMs = Math.round(performance.now() - start);
    return { startedAt, durationMs, timing, ...rest };
  };
  const target = parts.targetOf(sending.url);
  if (typeof target === 'string') {
    parts.metrics.refused('url');
    return finish(failed(undefined, `${NOT_ALLOWED}: it ${target}`));
  }
  const deadline = new Deadline(parts.attemptMs);
  try {
    const answer = await exchange(parts, { target, sending, deadline, timing });
    if (isNoSocketLeft(answer.error)) throw answer.error;
    return finish(judge(answer, timing, parts.now()));
  } catch (error) {
    if (isNoSocketLeft(error)) {
      const shortage = new NoSocketLeft(error);
      parts.metrics.noSocketLeft(shortage.code);
      // Idle connections hold sockets that others need.
      parts.pool.closeIdle();
      throw shortage;
    }
    if (error instanceof AddressRefused) parts.metrics.refused('connect');
    return finish(failed(error));
  } finally {
    deadline.cancel();
  }
}

interface Exchange {
  readonly target: Target;
  readonly sending: Sending;
  readonly deadline: Deadline;
  readonly timing: Opening;
}

/** Uses a kept connection if there is one, and a new one if that turns out to be closed. */
async function exchange(parts: Parts, o: Exchange): Promise<Answer> {
  const kept = parts.pool.take(o.target.origin);
  if (kept) {
    const answer = await post(kept, o);
    parts.pool.giveBack(kept);
    if (!wasClosedBefore(answer)) return answer;
    parts.metrics.requestResent();
  }
  const fresh = await open(parts, o);
  const answer = await post(fresh, o);
  parts.pool.giveBack(fresh);
  return answer;
}

function post(connection: Connection, { target, sending, deadline }: Exchange): Promise<Answer> {
  const { headers, body } = sending;
  return connection.post({ path: target.path, headers, body }, deadline);
}

/** Errors on a connection that the other side has closed, or is closing. */
const CLOSED: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

/**
 * Whether the receiver closed a kept connection, which it may do at any time, before the first byte of an answer. The
 * request is then sent again, as browsers do. Its webhook-id makes that safe.
 */
function wasClosedBefore(answer: Answer): boolean {
  return answer.beganAt === undefined && CLOSED.has(codeOf(answer.error));
}

async function open(parts: Parts, { target, deadline, timing }: Exchange): Promise<Connection> {
  const opening = new AbortController();
  const timer = setTimeout(() => opening.abort(new TooLate('no connection in time')), CONNECT_MS);
  deadline.guard((reason) => opening.abort(reason));
  try {
    const socket = await openSocket(target.url, parts, { signal: opening.signal, timing });
    parts.metrics.opened();
    const connection = new Connection(target.origin, socket, (closed) => parts.pool.remove(closed));
    parts.pool.add(connection);
    return connection;
  } finally {
    clearTimeout(timer);
  }
}
