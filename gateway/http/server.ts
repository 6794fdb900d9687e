import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { within } from '../../services/platform/within.ts';

export interface RunningHttpServer {
  readonly port: number;
  /** Takes no new requests, lets those in flight finish for up to 20 s. May be called twice. */
  stop(): Promise<void>;
}

/** Above the usual 60 s of load balancers, so that they close idle connections and not we. */
const KEEP_ALIVE_MS = 65_000;
const HEADERS_MS = 15_000;
/** The largest body over a slow line. */
const REQUEST_MS = 120_000;
const MAX_HEADER_BYTES = 16 * 1024;
/** As long as the services give theirs; Kubernetes kills after 45 s. Milliseconds. */
const DRAIN_MS = 20_000;
const SWEEP_MS = 50;

/** Serves HTTP/1.1 with every wait bounded. */
export async function startHttpServer(
  listener: RequestListener,
  o: { host: string; port: number },
): Promise<RunningHttpServer> {
  const server = createServer(
    {
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: HEADERS_MS,
      requestTimeout: REQUEST_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      connectionsCheckingInterval: 5_000,
      // Judged by the app: the library's own refusal has neither body nor request id.
      requireHostHeader: false,
    },
    (req, res) => {
      // A stopping server answers what is in flight and then gives the connection up.
      if (!server.listening) res.setHeader('Connection', 'close');
      listener(req, res);
    },
  );
  // The body is asked for by whoever reads it, once the request has been found worth it.
  server.on('checkContinue', listener);
  server.on('checkExpectation', listener);
  server.on('clientError', answerClientError);
  server.on('connect', (_req, socket) => refuseTunnel(socket));
  server.listen(o.port, o.host);
  await once(server, 'listening');
  const address = server.address();
  let stopped: Promise<void> | undefined;
  return {
    port: typeof address === 'object' && address ? address.port : o.port,
    stop() {
      stopped ??= close(server);
      return stopped;
    },
  };
}

async function close(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  // A kept-alive connection that has had its answer would hold the process until it times out.
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS);
  if (!(await within(DRAIN_MS, closed))) server.closeAllConnections();
  await closed;
  clearInterval(sweep);
}

/** What is not HTTP gets a short answer in the common shape, and the connection ends. */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET' || socket.bytesWritten > 0) {
    socket.destroy(error);
    return;
  }
  const [status, message] = CLIENT_ERRORS[error.code ?? ''] ?? [
    '400 Bad Request',
    'The request is not HTTP.',
  ];
  refuse(socket, status, message);
}

/** From here on nobody else listens to the socket, or closes it. */
function refuseTunnel(socket: Duplex): void {
  socket.on('error', () => socket.destroy()).once('finish', () => socket.destroy());
  refuse(socket, '400 Bad Request', 'This is no proxy: it opens no tunnels.');
}

function refuse(socket: Duplex, status: string, message: string): void {
  const body = JSON.stringify({ message, errors: {} });
  socket.end(
    [
      `HTTP/1.1 ${status}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${randomUUID()}`,
      'Cache-Control: no-store',
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
}

const CLIENT_ERRORS: Readonly<Record<string, readonly [string, string]>> = {
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 'The headers are too large.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'The request took too long to arrive.'],
};
