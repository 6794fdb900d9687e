import { once } from 'node:events';
import type http2 from 'node:http2';
import {
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type OutgoingHttpHeaders,
} from 'node:http2';
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type ContextValues,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type Interceptor,
} from '@connectrpc/connect';
import type { UniversalServerRequest } from '@connectrpc/connect/protocol';
import { parseTimeout } from '@connectrpc/connect/protocol-grpc';
import {
  type ConnectNodeAdapterOptions,
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from '@connectrpc/connect-node';
import { MAX_TIMER_MS } from '../process/worker.ts';
import type { Logger } from '../telemetry/log.ts';
import { logSeldom } from '../telemetry/log-seldom.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';
import { boundStrangers, MAX_HEAD_BYTES, STRANGER_CALLS } from './strangers.ts';
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
  /**
   * Checks the credential of a call before its body is read. When it rejects, the caller gets its error. Returns whether
   * the call had a valid one: a connection can do little before. Without this function, callers need none.
   */
  readonly authenticate?: (context: HandlerContext) => Promise<boolean>;
  /** Called next. When it rejects, the caller gets its error. */
  readonly admit?: (context: HandlerContext) => Promise<void>;
  /** How long a stop waits for calls in flight. Milliseconds. */
  readonly drainMs?: number;
  /** Approximate maximum age of a connection; five minutes by default. Milliseconds. */
  readonly maxAgeMs?: number;
  /** Time limit for the request of a unary call; 30 s by default. Milliseconds. */
  readonly requestMs?: number;
  /** Absent when connections are plain text. */
  readonly tls?: GrpcTls;
  readonly logger?: Pick<Logger, 'error' | 'warn'>;
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

/** A client without a valid certificate tries again about every second. Milliseconds. */
const LOG_EVERY_MS = 60_000;

/** Starts a gRPC server over HTTP/2, with TLS if it is configured. */
export async function startGrpcServer(o: ServerOptions): Promise<RunningServer> {
  const overdue = new AbortController();
  const seldom = logSeldom(LOG_EVERY_MS);
  const server = createHttp2Server(
    {
      maxSessionMemory: SESSION_MEMORY_MB,
      settings: {
        maxConcurrentStreams: o.authenticate ? STRANGER_CALLS : CALLS_OF_CONNECTION,
        maxHeaderListSize: MAX_HEAD_BYTES,
      },
    },
    o.tls,
    createNodeHandler({
      routes: o.routes,
      interceptors: o.interceptors ?? [],
      connect: false,
      grpcWeb: false,
      readMaxBytes: MAX_MESSAGE_BYTES,
      writeMaxBytes: MAX_MESSAGE_BYTES,
      // With the default of the library, an unknown name of an enum or a field in JSON counts as absent, so that a call
      // has another effect than its caller meant.
      jsonOptions: { ignoreUnknownFields: false },
      // Never compress. Inside a cluster, gzip costs more than the bytes that it saves.
      compressMinBytes: MAX_MESSAGE_BYTES,
      shutdownSignal: overdue.signal,
      requestMs: o.requestMs ?? REQUEST_MS,
      onSendFailed: (rpc, error) => o.logger?.error({ err: error, rpc }, 'rpc response not sent'),
      requestGate: async (context) => {
        const session = context.values.get(SESSION);
        try {
          const isKnown = await o.authenticate?.(context);
          if (isKnown && session) strangers?.know(session, CALLS_OF_CONNECTION);
        } catch (error) {
          const { code } = ConnectError.from(error);
          if (code === Code.Unauthenticated && session) strangers?.refuse(session);
          throw error;
        }
        await o.admit?.(context);
      },
    }),
    (reason) =>
      seldom((connections) =>
        o.logger?.warn({ reason, connections }, 'certificate of a client not accepted'),
      ),
  );
  const strangers = o.authenticate && boundStrangers(server);
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

type NodeHandlerOptions = Omit<
  ConnectNodeAdapterOptions,
  'fallback' | 'contextValues' | 'requestPathPrefix'
> & {
  /** Called when a response could not be sent and its caller is still connected. */
  readonly onSendFailed: (rpc: string, error: unknown) => void;
  /** Time limit for the request of a unary call. After it, the call ends. Milliseconds. */
  readonly requestMs: number;
};

/** The connection of a call. */
export const SESSION = createContextKey<http2.ServerHttp2Session | undefined>(undefined);

/** Whether the call was admitted, and its request is being read. */
const IS_READING = createContextKey(false);

const endReading: Interceptor = (next) => (req) => {
  req.contextValues.set(IS_READING, false);
  return next(req);
};

/**
 * Replaces `connectNodeAdapter` of the library, which prints to standard error when a caller disconnects during a
 * response. This handler does not print. It also ends calls whose callers do not complete the request, answers the code
 * INVALID_ARGUMENT to a request that cannot be read, for which the library answers INTERNAL, and sends error texts that
 * clients in Node can decode.
 */
function createNodeHandler(o: NodeHandlerOptions) {
  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    ...o,
    interceptors: [endReading, ...(o.interceptors ?? [])],
    async requestGate(context) {
      await o.requestGate?.(context);
      context.values.set(IS_READING, true);
    },
  });
  o.routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));

  return (req: Http2ServerRequest, res: Http2ServerResponse): void => {
    const [path = ''] = req.url.split('?', 1);
    const handler = handlers.get(path);
    if (!handler) return void respondUnknown(req, res);
    const values = createContextValues();
    if (req.stream.session && 'origin' in req.stream.session)
      values.set(SESSION, req.stream.session as http2.ServerHttp2Session);
    const request = requestOf(req, res, values);
    if (!request) return void respond(res, 400);
    dropLongDeadline(request.header);
    if (handler.method.methodKind === 'unary') endUnlessReceived(req, res, o.requestMs);
    handler(request)
      .then((response) => {
        const supported = SUPPORTED[response.status];
        if (supported) return respond(res, response.status, supported);
        const isUnreadable =
          values.get(IS_READING) && response.trailer?.get('grpc-status') === String(Code.Internal);
        if (isUnreadable) response.trailer?.set('grpc-status', String(Code.InvalidArgument));
        if (response.trailer) encodeMessage(response.trailer);
        return universalResponseToNodeResponse(response, res);
      })
      .catch((error: unknown) => {
        const isDisconnected =
          res.stream.destroyed || ConnectError.from(error).code === Code.Aborted;
        if (!isDisconnected) o.onSendFailed(handler.requestPath, error);
      });
  };
}

/**
 * Encodes only what gRPC requires in an error text: `%` and what is not printable ASCII. The library also encodes
 * punctuation, and grpc-js does not decode that.
 */
function encodeMessage(trailer: Headers): void {
  const text = decodeURIComponent(trailer.get('grpc-message') ?? '');
  if (text) trailer.set('grpc-message', text.replace(/[^ -$&-~]/gu, encodeURIComponent));
}

/** Returns undefined for a request whose authority is not part of a URL, for example because of its port. */
function requestOf(
  req: Http2ServerRequest,
  res: Http2ServerResponse,
  values: ContextValues,
): UniversalServerRequest | undefined {
  try {
    return universalRequestFromNodeRequest(req, res, undefined, values);
  } catch {
    return undefined;
  }
}

/** Removes a deadline that is too far away for a timer. The timer would end the call at once. */
function dropLongDeadline(header: Headers): void {
  const { timeoutMs = 0 } = parseTimeout(header.get('grpc-timeout'), MAX_TIMER_MS);
  if (timeoutMs > MAX_TIMER_MS) header.delete('grpc-timeout');
}

/** What a client of another protocol must send instead, by the status of the response. */
const SUPPORTED: Readonly<Record<number, OutgoingHttpHeaders>> = {
  405: { allow: 'POST' },
  415: { 'accept-post': 'application/grpc, application/grpc+proto, application/grpc+json' },
};

function respond(res: Http2ServerResponse, status: number, headers?: OutgoingHttpHeaders): void {
  res.writeHead(status, headers);
  res.end();
}

function respondUnknown(req: Http2ServerRequest, res: Http2ServerResponse): void {
  const type = req.headers['content-type'];
  if (type?.startsWith('application/grpc')) {
    res.setHeader('content-type', type);
    res.addTrailers({ 'grpc-status': Code.Unimplemented, 'grpc-message': 'unknown method' });
    respond(res, 200);
  } else respond(res, 404);
}

/** Ends the stream if the request does not arrive in time. Otherwise it would hold a permit and memory for ever. */
function endUnlessReceived(req: Http2ServerRequest, res: Http2ServerResponse, ms: number): void {
  const timer = setTimeout(() => {
    if (!req.complete) res.stream.close(constants.NGHTTP2_CANCEL);
  }, ms);
  res.stream.once('close', () => clearTimeout(timer));
}
