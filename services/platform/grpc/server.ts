import { once } from 'node:events';
import type http2 from 'node:http2';
import type { ConnectRouter, HandlerContext, Interceptor } from '@connectrpc/connect';
import type { Logger } from '../log.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';
import { createNodeHandler } from './node-handler.ts';
import { createHttp2Server, type GrpcTls } from './tls.ts';

export interface RunningServer {
  /** The bound TCP port, also when 0 was asked for. */
  readonly port: number;
  /** Takes no new calls, lets those in flight finish for up to 20 s, then resolves. May be called twice. */
  stop(): Promise<void>;
}

export interface ServerOptions {
  /** Address to bind; loopback unless told otherwise. */
  readonly host?: string;
  /** TCP port; 0 takes a free one. */
  readonly port: number;
  readonly routes: (router: ConnectRouter) => void;
  readonly interceptors?: Interceptor[];
  /** Judges a call by its headers, before its body is read; a rejection is the answer. */
  readonly gate?: (context: HandlerContext) => Promise<void>;
  /** How long calls in flight may take to finish at a stop. Milliseconds. */
  readonly drainMs?: number;
  /** How long a connection is kept, more or less; five minutes unless told otherwise. Milliseconds. */
  readonly maxAgeMs?: number;
  /** Plain text without. */
  readonly tls?: GrpcTls;
  readonly logger?: Pick<Logger, 'error'>;
}

/** Kubernetes kills after 45 s; this leaves time for what is stopped before and after. Milliseconds. */
const DRAIN_MS = 20_000;

/**
 * A caller looks for pods when it loses a connection, and only then: one that kept all of them would never
 * find a pod that was added. Milliseconds.
 */
const MAX_AGE_MS = 300_000;
/** Connections that were opened together do not end together. */
const AGE_SPREAD = 0.2;

/**
 * Node's own bound for a connection (10 MB) refuses every call on it while one large answer is unsent, and
 * never forgets the unsent bytes of a cancelled call. What is in flight is bounded by calls instead. MB.
 */
const SESSION_MEMORY_MB = Number.MAX_SAFE_INTEGER;

/** Serves gRPC over HTTP/2, with TLS where it is given. */
export async function startGrpcServer(o: ServerOptions): Promise<RunningServer> {
  const overdue = new AbortController();
  const server = createHttp2Server(
    { maxSessionMemory: SESSION_MEMORY_MB },
    o.tls,
    createNodeHandler({
      routes: o.routes,
      interceptors: o.interceptors ?? [],
      connect: false,
      grpcWeb: false,
      readMaxBytes: MAX_MESSAGE_BYTES,
      writeMaxBytes: MAX_MESSAGE_BYTES,
      // Inside a cluster gzip costs more than the bytes it saves.
      compressMinBytes: MAX_MESSAGE_BYTES,
      shutdownSignal: overdue.signal,
      onAnswerFailed: (rpc, error) => o.logger?.error({ err: error, rpc }, 'rpc answer not sent'),

      ...(o.gate && { requestGate: o.gate }),
    }),
  );
  const sessions = trackSessions(server, o.maxAgeMs ?? MAX_AGE_MS);
  server.listen(o.port, o.host ?? '127.0.0.1');
  await once(server, 'listening');

  const stop = async (): Promise<void> => {
    const closed = once(server, 'close');
    server.close();
    // http2.Server.close() waits for sessions but does not end them: an idle client would hold
    // the process until it is killed.
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

/** The open connections. Each is ended at its age, its calls first. */
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
    // A peer that resets its connection is no fault of ours; without a listener it would be thrown.
    session.on('error', () => {});
  });
  return sessions;
}
