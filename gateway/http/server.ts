import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { within } from '../../services/platform/process/within.ts';
import {
  type ConnectionCounts,
  type Connections,
  createConnections,
  type EndReason,
} from './connections.ts';

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
  /** Time limit for the client to read a response. It is enough for the largest response over a slow network. */
  readonly responseMs: number;
  /**
   * When all connections are in use, a new one may replace a connection whose client has not read a response for this
   * time.
   */
  readonly unreadMs: number;
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
  responseMs: 120_000,
  unreadMs: 2_000,
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
/** How long a stopping server waits for incomplete headers and for incomplete bodies. Milliseconds. */
const DRAIN_HEADERS_MS = 1_000;
const DRAIN_BODIES_MS = 5_000;
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

/** Starts an HTTP/1.1 server. Every wait for a client has a time limit. */
export async function startHttpServer(
  listener: RequestListener,
  o: HttpServerOptions,
): Promise<RunningHttpServer> {
  const limits = { ...HTTP_LIMITS, ...o.limits };
  const { maxConnections: max, rejectedMs: unreadBodyMs, responseMs, unreadMs } = limits;
  const counts = o.counts ?? UNCOUNTED;
  const connections = createConnections({ max, responseMs, unreadMs, unreadBodyMs }, counts);
  const serve: RequestListener = (req, res) => {
    connections.serve(req, res, () => listener(req, res));
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
  server.on('connection', (socket) => connections.admit(socket));
  // Without these listeners, Node sends `100 Continue` immediately. With them, the handler that reads the body sends it
  // after its checks.
  server.on('checkContinue', serve);
  server.on('checkExpectation', serve);
  handleClientErrors(server, connections, (socket, error) => {
    counts.ended(error.reason);
    rejectConnection(socket, { ...error, lingerMs: limits.rejectedMs });
  });
  server.listen(o.port, o.host);
  await once(server, 'listening');
  const check = setInterval(() => connections.endSlowReaders(performance.now()), limits.checkMs);
  const address = server.address();
  let endingSince: number | undefined;
  const endConnections = (): number => {
    connections.endAfterResponses();
    endingSince ??= performance.now();
    return endingSince;
  };
  let stopped: Promise<void> | undefined;
  return {
    port: typeof address === 'object' && address ? address.port : o.port,
    endConnections: () => void endConnections(),
    stop() {
      const idleUntil = endConnections() + limits.idleAtStopMs;
      stopped ??= close(server, connections, idleUntil).finally(() => clearInterval(check));
      return stopped;
    },
  };
}

/**
 * Calls `reject` for bytes that are not an HTTP request, and for a CONNECT request, because this server is no proxy.
 */
function handleClientErrors(
  server: Server,
  connections: Connections,
  reject: (socket: Duplex, error: ClientError) => void,
): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // After its first error, the parser also reports errors for the bytes that follow. Ignore them.
    if (socket.writableEnded && !socket.destroyed) return;
    const mayRespond = socket.writable && !connections.hasBegunResponse(socket);
    if (!mayRespond || error.code === 'ECONNRESET') return void socket.destroy(error);
    reject(socket, clientErrorOf(error.code));
  });
  server.on('connect', (_req, socket) => reject(socket, TUNNEL));
}

/** @param idleUntil idle connections stay open until this time of `performance.now()`. */
async function close(server: Server, connections: Connections, idleUntil: number): Promise<void> {
  const closed = once(server, 'close');
  // Calls `close` of the TCP server. The `close` of an HTTP server would close idle connections immediately.
  NetServer.prototype.close.call(server);
  const began = performance.now();
  const check = setInterval(() => {
    const now = performance.now();
    if (now >= idleUntil) {
      server.closeIdleConnections();
      connections.endSilent(now - DRAIN_HEADERS_MS);
    }
    if (now - began > DRAIN_BODIES_MS) connections.endIncomplete();
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
