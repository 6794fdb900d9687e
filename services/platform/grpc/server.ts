import { once } from 'node:events';
import type http2 from 'node:http2';
import type { ConnectRouter, HandlerContext, Interceptor } from '@connectrpc/connect';
import type { Logger } from '../log.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';
import { createNodeHandler } from './node-handler.ts';
import { createHttp2Server, type GrpcTls } from './tls.ts';

export interface RunningServer {
  /** The TCP port of the server. With port 0 in the options, the kernel has chosen it. */
  readonly port: number;
  /** Accepts no new calls, and waits up to 20 s for calls in flight. May be called twice. */
  stop(): Promise<void>;
}

export interface ServerOptions {
  /** Address to bind; loopback by default. */
  readonly host?: string;
  /** TCP port. With 0 the kernel chooses a free one. */
  readonly port: number;
  readonly routes: (router: ConnectRouter) => void;
  readonly interceptors?: Interceptor[];
  /** Checks the headers of a call before its body is read. When it rejects, the caller gets its error. */
  readonly admit?: (context: HandlerContext) => Promise<void>;
  /** How long a stop waits for calls in flight. Milliseconds. */
  readonly drainMs?: number;
  /** Approximate maximum age of a connection; five minutes by default. Milliseconds. */
  readonly maxAgeMs?: number;
  /** Time limit for the request of a unary call; 30 s by default. Milliseconds. */
  readonly requestMs?: number;
  /** Absent when connections are plain text. */
  readonly tls?: GrpcTls;
  readonly logger?: Pick<Logger, 'error'>;
}

/**
 * How long a stop waits for calls in flight. Kubernetes kills a pod after 45 s, and the other steps of a stop need time
 * too. Milliseconds.
 */
const DRAIN_MS = 20_000;

/**
 * Maximum age of a connection. A caller looks up the pods of a service only when it loses a connection. Without this
 * limit it would never find a new pod. Milliseconds.
 */
const MAX_AGE_MS = 300_000;
/** Random part of the maximum age, so that connections which were opened together do not close together. */
const AGE_SPREAD = 0.2;

/**
 * Memory limit of a connection, in MB. With Node's default of 10 MB, Node rejects every call of a connection while one
 * large response is unsent. It also never stops counting the unsent bytes of a cancelled call. So the number of
 * in-flight calls is limited instead.
 */
const SESSION_MEMORY_MB = Number.MAX_SAFE_INTEGER;

/** Time limit for the request of a unary call. The largest one, 33 MiB, arrives in much less. Milliseconds. */
const REQUEST_MS = 30_000;

/**
 * Maximum number of open calls of a connection. It is a multiple of `MAX_CALLS_IN_FLIGHT`, so that a caller learns that
 * the process is overloaded. It bounds what a caller without a token can leave open. Further calls wait at the caller.
 */
const CALLS_OF_CONNECTION = 4_000;

/** Starts a gRPC server over HTTP/2, with TLS if it is configured. */
export async function startGrpcServer(o: ServerOptions): Promise<RunningServer> {
  const overdue = new AbortController();
  const server = createHttp2Server(
    {
      maxSessionMemory: SESSION_MEMORY_MB,
      settings: { maxConcurrentStreams: CALLS_OF_CONNECTION },
    },
    o.tls,
    createNodeHandler({
      routes: o.routes,
      interceptors: o.interceptors ?? [],
      connect: false,
      grpcWeb: false,
      readMaxBytes: MAX_MESSAGE_BYTES,
      writeMaxBytes: MAX_MESSAGE_BYTES,
      // Never compress. Inside a cluster, gzip costs more than the bytes that it saves.
      compressMinBytes: MAX_MESSAGE_BYTES,
      shutdownSignal: overdue.signal,
      requestMs: o.requestMs ?? REQUEST_MS,
      onSendFailed: (rpc, error) => o.logger?.error({ err: error, rpc }, 'rpc response not sent'),
      ...(o.admit && { requestGate: o.admit }),
    }),
  );
  const sessions = trackSessions(server, o.maxAgeMs ?? MAX_AGE_MS);
  server.listen(o.port, o.host ?? '127.0.0.1');
  await once(server, 'listening');

  const stop = async (): Promise<void> => {
    const closed = once(server, 'close');
    server.close();
    // Close the sessions. `close()` of the HTTP/2 server waits for sessions and does not end them, so an idle client
    // would delay the stop until the process is killed.
    for (const session of sessions) session.close();
    const timer = setTimeout(() => {
      overdue.abort();
      for (const session of sessions) session.destroy();
    }, o.drainMs ?? DRAIN_MS);
    await closed;
    clearTimeout(timer);
  };
  let stopped: Promise<void> | undefined;
  const address = server.address();

  return {
    port: typeof address === 'object' && address ? address.port : o.port,
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}

/** Tracks the open connections. Closes each at its maximum age, after its calls have ended. */
function trackSessions(
  server: http2.Http2Server | http2.Http2SecureServer,
  maxAgeMs: number,
): ReadonlySet<http2.ServerHttp2Session> {
  const sessions = new Set<http2.ServerHttp2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    const age = maxAgeMs * (1 + AGE_SPREAD * (2 * Math.random() - 1));
    const timer = setTimeout(() => session.close(), age).unref();
    session.once('close', () => {
      clearTimeout(timer);
      sessions.delete(session);
    });
    // A client may reset its connection. Without this listener, the error would end the process.
    session.on('error', () => {});
  });
  return sessions;
}
