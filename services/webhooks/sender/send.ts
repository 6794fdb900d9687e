import { type Meter, metrics as noMetrics } from '@opentelemetry/api';
import {
  AddressNotAllowed,
  codeOf,
  isNoSocketLeft,
  NOT_ALLOWED,
  NoSocketLeft,
} from '../../platform/outbound/failure.ts';
import { checkUrl, portOf, type UrlPolicy } from '../../platform/outbound/guard.ts';
import {
  type Dial,
  dialTcp,
  type OpenOptions,
  openSocket,
  trustOf,
} from '../../platform/outbound/open-socket.ts';
import { createResolver, type Resolve } from '../../platform/outbound/resolver.ts';
import { type NetworkLimit, NetworkLimited } from './network-limit.ts';
import { Connection, Deadline, Pool } from './pool.ts';
import type { ResponseReader } from './response-reader.ts';
import {
  failed,
  NO_TIMING,
  type Opening,
  resultOf,
  round,
  type SendResult,
  type UntimedResult,
} from './send-result.ts';

/** Time limit of an attempt, from the resolution of the name to the last byte of the response. Milliseconds. */
export const ATTEMPT_MS = 15_000;
/** Time limit until the connection is open and encrypted. Milliseconds. */
const CONNECT_MS = 10_000;

export interface Sending {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export type Send = (sending: Sending) => Promise<SendResult>;

interface Sender {
  /**
   * Makes one attempt: an HTTP POST with one deadline for all steps. A failure is a result, and not an error. The
   * attempt succeeds with any 2xx that is read to its end (or to our limit) before the deadline. A redirect is a
   * failure.
   *
   * @throws only NoSocketLeft and NetworkLimited, which do not count as an attempt.
   */
  readonly send: Send;
  /** Closes all connections. Attempts in flight fail. */
  close(): void;
}

export interface SenderOptions {
  readonly policy: UrlPolicy;
  readonly meter?: Meter;
  /** Limits what receivers get that have never answered 2xx. By default nothing does. */
  readonly limit?: Pick<NetworkLimit, 'take' | 'proved'> | undefined;
  /** How names are resolved (tests). */
  readonly resolve?: Resolve;
  /** Total time of one attempt (tests). Milliseconds. */
  readonly attemptMs?: number;
  /** The current time, for responses without a `Date` header. By default that of this machine. */
  readonly now?: () => Date;
  /** How connections are opened (tests). */
  readonly dial?: Dial;
  /** The only trusted certificate authority, in PEM (tests). */
  readonly ca?: string;
}

interface Parts extends OpenOptions, Pick<SenderOptions, 'limit'> {
  readonly targetOf: (url: string) => Target | string;
  readonly pool: Pool;
  readonly metrics: SenderMetrics;
  readonly attemptMs: number;
  readonly now: () => Date;
}

/**
 * Creates the HTTP client for deliveries. It connects only to public addresses, and keeps connections open between
 * requests.
 */
export function createSender(o: SenderOptions): Sender {
  const pool = new Pool();
  const parts: Parts = {
    policy: o.policy,
    limit: o.limit,
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
    send: (sending) => sendRequest(sending, parts),
    close: () => pool.close(),
  };
}

async function sendRequest(sending: Sending, parts: Parts): Promise<SendResult> {
  const startedAt = new Date();
  const start = performance.now();
  const timing: Opening = { ...NO_TIMING };
  const finish = (result: UntimedResult): SendResult => {
    round(timing);
    const durationMs = Math.round(performance.now() - start);
    return { startedAt, durationMs, timing, ...result };
  };
  const target = parts.targetOf(sending.url);
  if (typeof target === 'string') {
    parts.metrics.notAllowed('url');
    return finish(failed(undefined, `${NOT_ALLOWED}: it ${target}`));
  }
  const deadline = new Deadline(parts.attemptMs);
  const limit = target.isAllowedOrigin ? undefined : parts.limit;
  try {
    const o = { target, sending, deadline, timing };
    const { response, address } = await requestOver({ ...parts, limit }, o);
    if (isNoSocketLeft(response.error)) throw response.error;
    const result = resultOf(response, timing, parts.now());
    if (result.kind === 'delivered') limit?.proved(address);
    return finish(result);
  } catch (error) {
    if (error instanceof NetworkLimited) throw error;
    if (isNoSocketLeft(error)) {
      const shortage = new NoSocketLeft(error);
      parts.metrics.noSocketLeft(shortage.code);
      // Close idle connections, because other requests need their sockets.
      parts.pool.closeIdle();
      throw shortage;
    }
    if (error instanceof AddressNotAllowed) parts.metrics.notAllowed('connect');
    return finish(failed(error));
  } finally {
    deadline.cancel();
  }
}

interface OneRequest {
  readonly target: Target;
  readonly sending: Sending;
  readonly deadline: Deadline;
  readonly timing: Opening;
}

/**
 * Sends the request on an idle connection if there is one. When the receiver has closed this connection, sends the
 * request on a new connection. Returns the response, and the address that it came from.
 */
async function requestOver(
  parts: Parts,
  o: OneRequest,
): Promise<{ response: ResponseReader; address: string }> {
  const kept = parts.pool.take(o.target.origin);
  if (kept) {
    const response = await postOver(kept, parts, o);
    if (response && !wasClosedBefore(response)) return { response, address: kept.address };
    if (response) parts.metrics.requestResent();
  }
  const fresh = await open(parts, o);
  const response = await post(fresh, o);
  parts.pool.giveBack(fresh);
  return { response, address: fresh.address };
}

/**
 * Sends the request on a kept connection. Returns undefined if its address is at its limit: a new connection may
 * reach another address of the name.
 */
async function postOver(kept: Connection, { pool, limit }: Parts, o: OneRequest) {
  try {
    if (limit) await o.deadline.without(limit.take(kept.address, o.sending.body.byteLength));
    return await post(kept, o);
  } catch (error) {
    if (error instanceof NetworkLimited) return undefined;
    throw error;
  } finally {
    pool.giveBack(kept);
  }
}

function post(
  connection: Connection,
  { target, sending, deadline }: OneRequest,
): Promise<ResponseReader> {
  const { headers, body } = sending;
  return connection.post({ path: target.path, headers, body }, deadline);
}

/** Error codes of a connection that the receiver has closed or is closing. */
const CLOSED: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

/**
 * Whether the receiver closed a reused connection before the first byte of a response. It may close an idle connection
 * at any time. The request is then sent again, as browsers do. This is safe because of its webhook-id.
 */
function wasClosedBefore(response: ResponseReader): boolean {
  return response.beganAt === undefined && CLOSED.has(codeOf(response.error));
}

async function open(
  parts: Parts,
  { target, sending, deadline, timing }: OneRequest,
): Promise<Connection> {
  const opening = new AbortController();
  const connecting = new Deadline(CONNECT_MS, 'no connection in time');
  for (const each of [connecting, deadline]) each.guard((reason) => opening.abort(reason));
  let address = '';
  const onReached = async (reached: string): Promise<void> => {
    address = reached;
    const { limit } = parts;
    if (!limit) return;
    const taking = limit.take(reached, sending.body.byteLength);
    await deadline.without(connecting.without(taking));
  };
  try {
    const o = { ...parts, onReached };
    const socket = await openSocket(target.url, o, { signal: opening.signal, timing });
    parts.metrics.opened();
    const about = { origin: target.origin, address };
    const connection = new Connection(about, socket, (closed) => parts.pool.remove(closed));
    parts.pool.add(connection);
    return connection;
  } finally {
    connecting.cancel();
  }
}

/** The parts of a URL that a request needs. */
interface Target {
  readonly url: URL;
  readonly origin: string;
  readonly port: number;
  /** Path with the query. */
  readonly path: string;
  readonly isAllowedOrigin: boolean;
}

/** Maximum number of cached URLs. */
const MAX_TARGETS = 2_000;

/**
 * Creates the check of URLs before each attempt. Valid URLs are cached, because the result for a text does not change.
 * Only the ports of this stack can change, so they are checked each time.
 *
 * @returns a function that returns the target. When the URL is not allowed, it returns the reason, as the text after
 *   "it".
 */
function createTargets(policy: UrlPolicy): (text: string) => Target | string {
  const cache = new Map<string, Target>();

  function check(text: string): Target | string {
    const result = checkUrl(text, policy);
    if (!result.ok) return result.message;
    const { url, isAllowedOrigin } = result;
    const path = url.pathname + url.search;
    const target = { url, origin: url.origin, port: portOf(url), path, isAllowedOrigin };
    const oldest = cache.size >= MAX_TARGETS ? cache.keys().next().value : undefined;
    if (oldest !== undefined) cache.delete(oldest);
    cache.set(text, target);
    return target;
  }

  return (text) => {
    const target = cache.get(text);
    if (!target) return check(text);
    const mayBeOwn = target.isAllowedOrigin && policy.stackPorts().includes(target.port);
    return mayBeOwn ? check(text) : target;
  };
}

interface SenderMetrics {
  /** Counts a request that was sent again on a new connection, because the receiver had closed the idle one. */
  requestResent(): void;
  /** Counts an attempt whose address is not allowed. `url`: by its text. `connect`: after its name was resolved. */
  notAllowed(stage: 'url' | 'connect'): void;
  opened(): void;
  /** Counts an attempt that was not made because this process has no socket left. @param code such as `EMFILE`. */
  noSocketLeft(code: string): void;
}

/** Creates the metrics of connections and of addresses that are not allowed. */
function senderMetrics(meter: Meter, pool: Pool): SenderMetrics {
  const again = meter.createCounter('webhooks.requests_resent', {
    description: 'Requests that were sent again on a new connection because a kept one was closed',
  });
  const notAllowed = meter.createCounter('webhooks.addresses_refused', {
    description: 'Attempts that were not made because their address is not allowed, by stage',
  });
  const opened = meter.createCounter('webhooks.connections_opened', {
    description: 'Connections to receivers opened',
  });
  const noSocketLeft = meter.createCounter('webhooks.sockets_exhausted', {
    description:
      'Attempts that were not made because this process had no socket left, by error code',
  });
  meter
    .createObservableGauge('webhooks.connections', { description: 'Connections to receivers' })
    .addCallback((result) => {
      result.observe(pool.idle(), { state: 'idle' });
      result.observe(pool.busy(), { state: 'busy' });
    });
  return {
    requestResent: () => again.add(1),
    notAllowed: (stage) => notAllowed.add(1, { stage }),
    opened: () => opened.add(1),
    noSocketLeft: (code) => noSocketLeft.add(1, { code }),
  };
}
