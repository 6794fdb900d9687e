import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Meter } from '@opentelemetry/api';
import { within } from '../../services/platform/process/within.ts';
import { ResponseNotRead } from './large-response.ts';

/** Why the server closed a connection; a label of the metrics. */
export type EndReason =
  | 'too many connections'
  | 'request too slow'
  | 'not a request'
  | 'answer not read';

/** Receives events about connections, for metrics. */
export interface ConnectionCounts {
  opened(): void;
  closed(): void;
  ended(reason: EndReason): void;
}

/** Metrics for the connections of all listeners of the process. */
export function connectionMetrics(meter: Meter): ConnectionCounts {
  const open = meter.createUpDownCounter('http.server.connections', {
    description: 'Open connections',
  });
  const ended = meter.createCounter('http.server.connections.ended', {
    description: 'Connections that the server ended, by reason',
  });
  return {
    opened: () => open.add(1),
    closed: () => open.add(-1),
    ended: (reason) => ended.add(1, { reason }),
  };
}

export interface RunningHttpServer {
  readonly port: number;
  /** From now on the server ends each connection after its response. It still accepts requests. */
  endConnections(): void;
  /**
   * Does the same as `endConnections`, and accepts no new connections. Waits up to 20 s for in-flight requests. May be
   * called twice.
   */
  stop(): Promise<void>;
}

/** Limits of the server. Times in milliseconds. */
export interface HttpLimits {
  /** Maximum number of open connections. Each uses a file descriptor and up to 16 KiB for incomplete headers. */
  readonly maxConnections: number;
  /** Time limit for the headers of a request. */
  readonly headersMs: number;
  /** Time limit for the client to send a whole request. It is enough for the largest body over a slow network. */
  readonly requestMs: number;
  /** Time limit for a client to read an error response and close the connection. */
  readonly rejectedMs: number;
  /**
   * How long a stopping server keeps idle connections open. On each of them a client can send one more request, whose
   * response has `Connection: close`. A request that a client sends just when the server closes the connection gets no
   * response.
   */
  readonly idleAtStopMs: number;
  /** Interval at which these limits are checked. */
  readonly checkMs: number;
}

export const HTTP_LIMITS: HttpLimits = {
  maxConnections: 4_000,
  headersMs: 15_000,
  requestMs: 120_000,
  rejectedMs: 3_000,
  idleAtStopMs: 5_000,
  checkMs: 1_000,
};

/** Longer than the usual 60 s of load balancers, so that the load balancer closes idle connections first. */
const KEEP_ALIVE_MS = 65_000;
const MAX_HEADER_BYTES = 16 * 1024;
/**
 * How long a stop waits for in-flight requests. The services wait as long. Kubernetes kills the process after 45 s.
 * Milliseconds.
 */
const DRAIN_MS = 20_000;
const CLOSE_CHECK_MS = 50;

interface HttpServerOptions {
  readonly host: string;
  /** TCP port; 0 takes a free one. */
  readonly port: number;
  /** {@link HTTP_LIMITS} when absent. */
  readonly limits?: Partial<HttpLimits>;
  readonly counts?: ConnectionCounts;
}

const UNCOUNTED: ConnectionCounts = { opened: () => {}, closed: () => {}, ended: () => {} };

/**
 * Starts an HTTP/1.1 server. Every wait for a client has a time limit. Addresses that hold many connections, half
 * requests or pipelines are the edge's to refuse (docs/edge.md).
 */
export async function startHttpServer(
  listener: RequestListener,
  o: HttpServerOptions,
): Promise<RunningHttpServer> {
  const limits = { ...HTTP_LIMITS, ...o.limits };
  const counts = o.counts ?? UNCOUNTED;
  const responses = openResponses();
  /** The response to the last request of each connection. */
  const newest = new WeakMap<Socket, ServerResponse>();
  const serve: RequestListener = (req, res) => {
    responses.add(res);
    res.once('close', () => {
      if (res.errored instanceof ResponseNotRead) counts.ended('answer not read');
    });
    const { socket } = req;
    const previous = newest.get(socket);
    newest.set(socket, res);
    if (!previous || previous.closed) return listener(req, res);
    // One after the other, because pipelined writes must not run at the same time (RFC 9112, 9.3.2). In the context of
    // this request, because the event comes in that of the previous one.
    const handle = AsyncLocalStorage.bind(() => listener(req, res));
    previous.once('close', () => {
      if (socket.writable) handle();
    });
  };
  const server = createServer(
    {
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      maxHeaderSize: MAX_HEADER_BYTES,
      connectionsCheckingInterval: limits.checkMs,
      // The app checks the Host header instead. Node's own error response would have neither a body nor a request id.
      requireHostHeader: false,
    },
    serve,
  );
  server.maxConnections = limits.maxConnections;
  server.on('drop', () => counts.ended('too many connections'));
  server.on('connection', (socket) => {
    counts.opened();
    socket.once('close', counts.closed);
  });
  // Without these listeners, Node sends `100 Continue` immediately. With them, the handler that reads the body sends it
  // after its checks.
  server.on('checkContinue', serve);
  server.on('checkExpectation', serve);
  handleClientErrors(server, responses, (socket, error) => {
    counts.ended(error.reason);
    rejectConnection(socket, { ...error, lingerMs: limits.rejectedMs });
  });
  server.listen(o.port, o.host);
  await once(server, 'listening');
  const address = server.address();
  let endingSince: number | undefined;
  const endConnections = (): number => {
    responses.endConnections();
    endingSince ??= performance.now();
    return endingSince;
  };
  let stopped: Promise<void> | undefined;
  return {
    port: typeof address === 'object' && address ? address.port : o.port,
    endConnections: () => void endConnections(),
    stop() {
      const idleUntil = endConnections() + limits.idleAtStopMs;
      stopped ??= close(server, idleUntil);
      return stopped;
    },
  };
}

interface OpenResponses {
  /** Registers a response until it is complete. */
  add(res: ServerResponse): void;
  /** Whether a response has begun. If so, nothing else may be written to the socket. */
  hasBegun(socket: Socket): boolean;
  /** From now on each response has `Connection: close`, and its connection ends after it. */
  endConnections(): void;
}

function openResponses(): OpenResponses {
  const open = new Set<ServerResponse>();
  let isEnding = false;
  return {
    add(res) {
      if (isEnding) res.shouldKeepAlive = false;
      open.add(res);
      res.once('close', () => open.delete(res));
    },
    hasBegun: (socket) => [...open].some((res) => res.socket === socket && res.headersSent),
    endConnections() {
      isEnding = true;
      for (const res of open) res.shouldKeepAlive = false;
    },
  };
}

/**
 * Calls `reject` for bytes that are not an HTTP request, and for a CONNECT request, because this server is no proxy.
 */
function handleClientErrors(
  server: Server,
  responses: OpenResponses,
  reject: (socket: Duplex, error: ClientError) => void,
): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // After its first error, the parser also reports errors for the bytes that follow. Ignore them.
    if (socket.writableEnded && !socket.destroyed) return;
    const mayRespond = socket.writable && !responses.hasBegun(socket);
    if (!mayRespond || error.code === 'ECONNRESET') return void socket.destroy(error);
    reject(socket, clientErrorOf(error.code));
  });
  server.on('connect', (_req, socket) => reject(socket, TUNNEL));
}

/** @param idleUntil idle connections stay open until this time of `performance.now()`. */
async function close(server: Server, idleUntil: number): Promise<void> {
  const closed = once(server, 'close');
  // Calls `close` of the TCP server. The `close` of an HTTP server would close idle connections immediately.
  NetServer.prototype.close.call(server);
  const check = setInterval(() => {
    if (performance.now() >= idleUntil) server.closeIdleConnections();
  }, CLOSE_CHECK_MS);
  if (!(await within(DRAIN_MS, closed))) server.closeAllConnections();
  await closed;
  clearInterval(check);
  // Ends the timer that checks the time limits of requests.
  server.close();
}

/**
 * Sends a JSON error to a client whose request is not valid HTTP or is not served here. Then closes the connection.
 *
 * The socket continues to receive for `lingerMs`. If it closed while bytes of the client are unread, TCP would reset
 * the connection and the client would lose the response.
 */
function rejectConnection(
  socket: Duplex,
  o: { readonly status: string; readonly message: string; readonly lingerMs: number },
): void {
  const body = JSON.stringify({ message: o.message, errors: {} });
  const timer = setTimeout(() => socket.destroy(), o.lingerMs);
  socket.on('error', () => socket.destroy()).once('close', () => clearTimeout(timer));
  socket.end(
    [
      `HTTP/1.1 ${o.status}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${randomUUID()}`,
      'Cache-Control: no-store',
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
  socket.resume();
}

interface ClientError {
  readonly status: string;
  readonly message: string;
  readonly reason: EndReason;
}

/** The response to a CONNECT request. */
const TUNNEL: ClientError = {
  status: '400 Bad Request',
  message: 'This server is not a proxy and opens no tunnels.',
  reason: 'not a request',
};

/** The response for an error of Node's HTTP parser, by error code. */
function clientErrorOf(code: string | undefined): ClientError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return {
        status: '431 Request Header Fields Too Large',
        message: 'The headers are too large.',
        reason: 'not a request',
      };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return {
        status: '408 Request Timeout',
        message: 'The request took too long to arrive.',
        reason: 'request too slow',
      };
    default:
      return {
        status: '400 Bad Request',
        message: 'The request is not HTTP.',
        reason: 'not a request',
      };
  }
}
