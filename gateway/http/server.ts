import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { within } from '../../services/platform/within.ts';
import { type ConnectionCounts, type Connections, createConnections } from './connections.ts';
import { type ClientError, clientErrorOf, refuseConnection, TUNNEL } from './refuse-connection.ts';

export interface RunningHttpServer {
  readonly port: number;
  /** Takes no new requests, lets those in flight finish for up to 20 s. May be called twice. */
  stop(): Promise<void>;
}

/** How long the server waits, in milliseconds, and for how many. */
export interface HttpLimits {
  /** Connections at once; each holds a descriptor and up to 16 KiB of unfinished headers. */
  readonly maxConnections: number;
  /** For the headers of a request. */
  readonly headersMs: number;
  /** For a whole request: the largest body over a slow line. */
  readonly requestMs: number;
  /** For the client to read an answer: the largest over a slow line. */
  readonly answerMs: number;
  /** For a client that was refused to take its answer and leave. */
  readonly refusedMs: number;
  /** Between two looks for what is over one of these. */
  readonly checkMs: number;
}

export const HTTP_LIMITS: HttpLimits = {
  maxConnections: 4_000,
  headersMs: 15_000,
  requestMs: 120_000,
  answerMs: 120_000,
  refusedMs: 3_000,
  checkMs: 1_000,
};

/** Above the usual 60 s of load balancers, so that they close idle connections and not we. */
const KEEP_ALIVE_MS = 65_000;
const MAX_HEADER_BYTES = 16 * 1024;
/** As long as the services give theirs; Kubernetes kills after 45 s. Milliseconds. */
const DRAIN_MS = 20_000;
/** How long a stopping server waits for the rest of headers, and of a body. Milliseconds. */
const DRAIN_HEADERS_MS = 1_000;
const DRAIN_BODIES_MS = 5_000;
const SWEEP_MS = 50;

export interface HttpServerOptions {
  readonly host: string;
  /** TCP port; 0 takes a free one. */
  readonly port: number;
  /** {@link HTTP_LIMITS} where absent. */
  readonly limits?: Partial<HttpLimits>;
  readonly counts?: ConnectionCounts;
}

const UNCOUNTED: ConnectionCounts = { opened: () => {}, closed: () => {}, ended: () => {} };

/** Serves HTTP/1.1 with every wait bounded. */
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
    // A stopping server answers what is in flight and then gives the connection up.
    if (!server.listening) res.setHeader('Connection', 'close');
    listener(req, res);
  };
  const server = createServer(
    {
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      maxHeaderSize: MAX_HEADER_BYTES,
      connectionsCheckingInterval: limits.checkMs,
      // Judged by the app: the library's own refusal has neither body nor request id.
      requireHostHeader: false,
    },
    serve,
  );
  server.on('connection', (socket) => connections.admit(socket));
  // The body is asked for by whoever reads it, once the request has been found worth it.
  server.on('checkContinue', serve);
  server.on('checkExpectation', serve);
  const refuse = (socket: Duplex, error: ClientError): void => {
    counts.ended(error.reason);
    refuseConnection(socket, { ...error, lingerMs: refusedMs });
  };
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // The parser complains again about what comes after its first complaint: that is discarded.
    if (socket.writableEnded && !socket.destroyed) return;
    const mayAnswer = socket.writable && !connections.isAnswering(socket);
    if (!mayAnswer || error.code === 'ECONNRESET') return void socket.destroy(error);
    refuse(socket, clientErrorOf(error.code));
  });
  server.on('connect', (_req, socket) => refuse(socket, TUNNEL));
  server.listen(o.port, o.host);
  await once(server, 'listening');
  const check = setInterval(() => connections.endSlowReaders(performance.now()), limits.checkMs);
  const address = server.address();
  let stopped: Promise<void> | undefined;
  return {
    port: typeof address === 'object' && address ? address.port : o.port,
    stop() {
      stopped ??= close(server, connections).finally(() => clearInterval(check));
      return stopped;
    },
  };
}

async function close(server: Server, connections: Connections): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  const began = performance.now();
  const sweep = setInterval(() => {
    const now = performance.now();
    // A kept-alive connection that has had its answer would hold the process until it times out.
    server.closeIdleConnections();
    connections.endSilent(now - DRAIN_HEADERS_MS);
    if (now - began > DRAIN_BODIES_MS) connections.endIncomplete();
  }, SWEEP_MS);
  if (!(await within(DRAIN_MS, closed))) server.closeAllConnections();
  await closed;
  clearInterval(sweep);
}
