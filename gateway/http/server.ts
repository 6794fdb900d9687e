import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { within } from '../../services/platform/within.ts';
import { type ConnectionCounts, type Connections, createConnections } from './connections.ts';
import { type ClientError, clientErrorOf, refuseConnection, TUNNEL } from './refuse-connection.ts';

export interface RunningHttpServer {
  readonly port: number;
  /** From now on the server ends each connection after its response. It still accepts requests. */
  endConnections(): void;
  /**
   * Ends connections as `endConnections`, accepts no new ones, and lets the in-flight requests finish within 20 s. May be
   * called twice.
   */
  stop(): Promise<void>;
}

/** Limits of the server. Times in milliseconds. */
export interface HttpLimits {
  /** Open connections; each has a file descriptor and up to 16 KiB of incomplete headers. */
  readonly maxConnections: number;
  /** Time limit for the headers of a request. */
  readonly headersMs: number;
  /** Time limit for a whole request: the largest body over a slow line. */
  readonly requestMs: number;
  /** Time limit for the client to read a response: the largest one over a slow line. */
  readonly answerMs: number;
  /** Time limit for a refused client to read its response and close the connection. */
  readonly refusedMs: number;
  /**
   * Time for clients of a stopping server to send one more request on an idle connection, whose response tells them
   * that the connection ends. A client that sends while we close gets no response.
   */
  readonly idleAtStopMs: number;
  /** Interval at which these limits are checked. */
  readonly checkMs: number;
}

export const HTTP_LIMITS: HttpLimits = {
  maxConnections: 4_000,
  headersMs: 15_000,
  requestMs: 120_000,
  answerMs: 120_000,
  refusedMs: 3_000,
  idleAtStopMs: 5_000,
  checkMs: 1_000,
};

/** Longer than the usual 60 s of load balancers, so that the load balancer closes idle connections first. */
const KEEP_ALIVE_MS = 65_000;
const MAX_HEADER_BYTES = 16 * 1024;
/** Time limit for in-flight requests at a stop, as in the services. Kubernetes kills after 45 s. Milliseconds. */
const DRAIN_MS = 20_000;
/** Time limits of a stopping server for incomplete headers and incomplete bodies. Milliseconds. */
const DRAIN_HEADERS_MS = 1_000;
const DRAIN_BODIES_MS = 5_000;
const SWEEP_MS = 50;

export interface HttpServerOptions {
  readonly host: string;
  /** TCP port; 0 takes a free one. */
  readonly port: number;
  /** {@link HTTP_LIMITS} when absent. */
  readonly limits?: Partial<HttpLimits>;
  readonly counts?: ConnectionCounts;
}

const UNCOUNTED: ConnectionCounts = { opened: () => {}, closed: () => {}, ended: () => {} };

/** Serves HTTP/1.1. Every wait for a client has a time limit. */
export async function startHttpServer(
  listener: RequestListener,
  o: HttpServerOptions,
): Promise<RunningHttpServer> {
  const limits = { ...HTTP_LIMITS, ...o.limits };
  const { maxConnections: max, refusedMs, answerMs } = limits;
  const counts = o.counts ?? UNCOUNTED;
  const connections = createConnections({ max, answerMs, unreadBodyMs: refusedMs }, counts);
  const serve: RequestListener = (req, res) => {
    connections.serve(req, res);
    listener(req, res);
  };
  const server = createServer(
    {
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      maxHeaderSize: MAX_HEADER_BYTES,
      connectionsCheckingInterval: limits.checkMs,
      // The app checks the Host header, because Node's own response has neither a body nor a request id.
      requireHostHeader: false,
    },
    serve,
  );
  server.on('connection', (socket) => connections.admit(socket));
  // Node would send `100 Continue` at once. Here the handler that reads the body sends it, after its checks.
  server.on('checkContinue', serve);
  server.on('checkExpectation', serve);
  answerClientErrors(server, connections, (socket, error) => {
    counts.ended(error.reason);
    refuseConnection(socket, { ...error, lingerMs: refusedMs });
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

/** Answers what is not an HTTP request, or one that only a proxy serves. */
function answerClientErrors(
  server: Server,
  connections: Connections,
  refuse: (socket: Duplex, error: ClientError) => void,
): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // After its first error, the parser reports further errors for the following bytes. They are ignored.
    if (socket.writableEnded && !socket.destroyed) return;
    const mayAnswer = socket.writable && !connections.isAnswering(socket);
    if (!mayAnswer || error.code === 'ECONNRESET') return void socket.destroy(error);
    refuse(socket, clientErrorOf(error.code));
  });
  server.on('connect', (_req, socket) => refuse(socket, TUNNEL));
}

/** @param idleUntil how long idle connections stay open, as a time of `performance.now()`. */
async function close(server: Server, connections: Connections, idleUntil: number): Promise<void> {
  const closed = once(server, 'close');
  // The `close` of HTTP servers closes idle connections at once.
  NetServer.prototype.close.call(server);
  const began = performance.now();
  const sweep = setInterval(() => {
    const now = performance.now();
    if (now >= idleUntil) {
      server.closeIdleConnections();
      connections.endSilent(now - DRAIN_HEADERS_MS);
    }
    if (now - began > DRAIN_BODIES_MS) connections.endIncomplete();
  }, SWEEP_MS);
  if (!(await within(DRAIN_MS, closed))) server.closeAllConnections();
  await closed;
  clearInterval(sweep);
  // Also ends the timer that checks the time limits of requests.
  server.close();
}
