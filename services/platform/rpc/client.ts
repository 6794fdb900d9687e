import { setMaxListeners } from 'node:events';
import { create, type DescService, fromBinary, isMessage, toBinary } from '@bufbuild/protobuf';
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import {
  type Client,
  Code,
  ConnectError,
  createClient,
  createContextValues,
  type Interceptor,
  type Transport,
  type UnaryRequest,
} from '@connectrpc/connect';
import { findTrailerError } from '@connectrpc/connect/protocol-grpc';
import {
  Client as Channel,
  type ClientOptions,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { createBackoff, equalJitter, retry } from '../process/backoff.ts';
import { deadline } from '../process/deadlines.ts';
import type { ClientIdentity } from '../security/identity.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { isOverloaded } from '../values/errors.ts';
import { currentCaller } from './caller.ts';
import { clientInstrumentation } from './instrumentation.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';
import { channelCredentials, type GrpcTls } from './tls.ts';

/**
 * Default deadline of a call. Every call has one, so that a hanging pod does not make its callers hang. Milliseconds.
 */
const DEFAULT_TIMEOUT_MS = deadline(5_000);

interface ServiceClientOptions {
  /** A gRPC name, such as `dns:///returns:8080` or `127.0.0.1:9001`. */
  readonly target: string;
  readonly identity: ClientIdentity;
  /** Default deadline of a call; `{ timeoutMs }` in the options of the call overrides it. Milliseconds. */
  readonly timeoutMs?: number;
  readonly telemetry?: Telemetry;
}

export interface ServiceClient<S extends DescService> {
  readonly client: Client<S>;
  /** Resolves when the client is connected to a server, or after this time. Milliseconds. */
  connected(withinMs: number): Promise<void>;
  close(): void;
}

/**
 * Creates a typed client of one service, with its own channel.
 *
 * Calls have the service token and the trace. They fail with ConnectError; `reasonOf`, `fieldOf` and `isUnavailable`
 * distinguish the failures. The client connects at its first call, or when `connected` is called. So it may be created
 * before the service runs.
 */
export function createServiceClient<S extends DescService>(
  service: S,
  o: ServiceClientOptions,
): ServiceClient<S> {
  const transport = createGrpcTransport({
    target: o.target,
    timeoutMs: o.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    ...(o.identity.tls && { tls: o.identity.tls }),
    interceptors: [
      readsEndWithCaller(),
      clientInstrumentation(o.telemetry, o.target),
      retryIdempotent(),
      sendIdentity(o.identity),
    ],
  });
  return {
    client: createClient(service, transport),
    connected: (withinMs) => transport.connected(withinMs),
    close: () => transport.close(),
  };
}

/**
 * Cancels a read when its caller disconnects. A write continues until its deadline, because a caller may rely on it
 * being finished.
 */
function readsEndWithCaller(): Interceptor {
  return (next) => (req) => {
    const caller = currentCaller();
    if (!caller || req.method.idempotency !== Idempotency.NO_SIDE_EFFECTS) return next(req);
    // `NEVER` exists as long as the process. `AbortSignal.any` would add a listener to it in each call.
    const signal = req.signal === NEVER ? caller : AbortSignal.any([req.signal, caller]);
    return next({ ...req, signal });
  };
}

/** Sends the service token as `authorization: Bearer …`. Reads the token for each call, because it may change. */
function sendIdentity(identity: ClientIdentity): Interceptor {
  return (next) => async (req) => {
    const token = await identity.token().catch((cause: unknown) => {
      const text = 'the service token cannot be read';
      throw new ConnectError(text, Code.Unavailable, undefined, undefined, cause);
    });
    req.header.set('authorization', `Bearer ${token}`);
    return next(req);
  };
}

const MAX_ATTEMPTS = 3;

/** Pauses before the second and the third attempt. */
const BACKOFF = createBackoff({ firstMs: 50, longestMs: 100, jitter: equalJitter });

/**
 * The budget for retries of a client: the maximum number of saved retries, and the part of a retry that each call adds.
 * When every call fails, the client retries one call in ten. So retries do not multiply the load on a service that is
 * recovering.
 */
const BUDGET = 20;
const BUDGET_PER_CALL = 0.1;

/**
 * Client interceptor: retries a call when the service is UNAVAILABLE. The retry usually reaches another pod.
 *
 * UNAVAILABLE does not prove that the call never ran. So only three kinds of calls are retried, within their deadline:
 * RPCs that the contract marks with `idempotency_level`, calls with an idempotency key, and calls whose stream the
 * server refused. A call to an overloaded service is not retried here; the caller may try it again later.
 *
 * The retries of grpc-js are not enough. They end with the first response headers, and a Connect server sends headers
 * before any error.
 */
function retryIdempotent(): Interceptor {
  let budget = BUDGET;
  return (next) => (req) => {
    const repeatable =
      req.method.idempotency !== Idempotency.IDEMPOTENCY_UNKNOWN || (!req.stream && hasKey(req));
    budget = Math.min(BUDGET, budget + BUDGET_PER_CALL);
    const mayRetry = (error: unknown, failures: number): boolean => {
      const mayRepeat = repeatable || isRefused(error);
      if (!mayRepeat || !isTransient(error) || failures === MAX_ATTEMPTS || budget < 1)
        return false;
      budget -= 1;
      return true;
    };
    // After an abort of the signal, the next attempt fails immediately with the signal's reason.
    return retry(() => next(req), { backoff: BACKOFF, isTransient: mayRetry, signal: req.signal });
  };
}

function isTransient(error: unknown): boolean {
  const isUnavailable = error instanceof ConnectError && error.code === Code.Unavailable;
  return isUnavailable && !isOverloaded(error);
}

/**
 * Whether the server refused the stream, because its connection ends: it has not processed the call (RFC 9113, 8.7), so
 * that any call may be repeated. grpc-js does so once, and reports the second refusal with this text.
 */
function isRefused(error: unknown): boolean {
  return error instanceof ConnectError && error.rawMessage === 'Stream refused by server';
}

/** Whether the message has an idempotency key. All such messages have the key in this field. */
function hasKey({ message }: UnaryRequest): boolean {
  const key: unknown = Reflect.get(message, 'idempotencyKey');
  return typeof key === 'string' && key !== '';
}

interface TransportOptions {
  /** A gRPC name, such as `dns:///destinations:8080`. */
  readonly target: string;
  /** Deadline of calls that set none. Milliseconds. */
  readonly timeoutMs: number;
  readonly interceptors: Interceptor[];
  /** Absent when connections are plain text. */
  readonly tls?: GrpcTls;
}

interface ConnectedTransport extends Transport {
  /**
   * Connects, if the channel is not connected yet. Resolves when a server is connected, or after this time.
   * Milliseconds.
   */
  connected(withinMs: number): Promise<void>;
  close(): void;
}

/**
 * Creates a transport of Connect over a channel of grpc-js.
 *
 * Connect has typed clients and interceptors. grpc-js resolves every pod behind a headless service and balances calls
 * over them; a single HTTP/2 connection would send all calls to one pod. The transport supports only unary calls,
 * because the system has no streams. It does not compress messages: inside a cluster CPU costs more than traffic.
 *
 * @see https://github.com/grpc/grpc/blob/master/doc/naming.md
 */
export function createGrpcTransport(o: TransportOptions): ConnectedTransport {
  const channel = new RenewedChannel(o);
  return {
    connected: (withinMs) => channel.connected(withinMs),
    close: () => channel.close(),

    async unary(method, signal, timeoutMs, header, input, contextValues) {
      const deadline = Date.now() + (timeoutMs ?? o.timeoutMs);
      const path = `/${method.parent.typeName}/${method.name}`;
      const unary = { stream: false, service: method.parent, method } as const;
      const send: Next = async (req) => {
        if (!isMessage(req.message, method.input)) throw wrongMessageType(path);
        const { message: request, header, signal: cancelled } = req;
        const response = await exchange(channel, {
          path,
          metadata: metadataOf(header),
          deadline,
          signal: cancelled === NEVER ? undefined : cancelled,
          write: () => bufferOf(toBinary(method.input, request)),
          read: (bytes) => fromBinary(method.output, bytes),
        });
        const message = response ?? create(method.output);
        return { ...unary, header: new Headers(), trailer: new Headers(), message };
      };
      const call = o.interceptors.reduceRight((next, intercept) => intercept(next), send);
      try {
        const {
          message,
          header: responseHeader,
          trailer,
        } = await call({
          ...unary,
          requestMethod: 'POST',
          url: o.target + path,
          header: new Headers(header),
          contextValues: contextValues ?? createContextValues(),
          message: create(method.input, input),
          signal: signal ?? NEVER,
        });
        if (!isMessage(message, method.output)) throw wrongMessageType(path);
        return { ...unary, header: responseHeader, trailer, message };
      } catch (error) {
        throw signal?.aborted
          ? ConnectError.from(signal.reason, Code.Canceled)
          : ConnectError.from(error);
      }
    },

    stream() {
      return Promise.reject(new ConnectError('streaming is not supported', Code.Unimplemented));
    },
  };
}

type Next = ReturnType<Interceptor>;

/** A channel to the target. When its connections or certificates stop working, a new grpc-js channel replaces it. */
class RenewedChannel {
  readonly #o: TransportOptions;
  readonly #unsubscribe: (() => void) | undefined;
  #current: Channel;

  constructor(o: TransportOptions) {
    this.#o = o;
    this.#current = this.#open();
    // A channel keeps its first certificates. So replace it when they change. Calls on the old channel finish.
    this.#unsubscribe = o.tls?.files.onChange(() => this.replace(this.#current));
  }

  /** The channel that new calls use. */
  get current(): Channel {
    return this.#current;
  }

  /** Makes new calls use new connections. */
  replace(exhausted: Channel): void {
    if (exhausted !== this.#current) return;
    this.#current = this.#open();
    exhausted.close();
  }

  /** Resolves when a server is connected, after `withinMs`, or when `close` is called. */
  connected(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#current.waitForReady(Date.now() + withinMs, () => resolve());
    });
  }

  close(): void {
    this.#unsubscribe?.();
    this.#current.close();
  }

  #open(): Channel {
    return new Channel(this.#o.target, channelCredentials(this.#o.tls), CHANNEL_OPTIONS);
  }
}

/**
 * The signal of calls that their caller cannot cancel. It never aborts: the channel enforces the deadline. Connect's
 * own `runUnaryCall` creates a signal for each call and aborts it at the end. This creates an error with a stack, which
 * costs more than the call.
 */
const NEVER = new AbortController().signal;
// No warning about many listeners: many calls may listen at the same time while they wait for a retry.
setMaxListeners(0, NEVER);

interface Exchange<T> {
  readonly path: string;
  readonly metadata: Metadata;
  /** Milliseconds since 1970. */
  readonly deadline: number;
  readonly signal: AbortSignal | undefined;
  readonly write: () => Buffer;
  readonly read: (bytes: Buffer) => T;
}

/**
 * Maximum number of times that one call is sent again. A connection that closes normally does not reject one call this
 * often in a row.
 */
const MAX_REJECTIONS = 5;

/**
 * Sends one request and returns its response; undefined when the response has no message.
 *
 * When a connection closes, the server may reject a request without processing it (HTTP/2: REFUSED_STREAM). Such a
 * request is sent again, whatever its method is. So is a request that waited for a connection while its channel was
 * replaced.
 */
async function exchange<T>(channel: RenewedChannel, o: Exchange<T>): Promise<T | undefined> {
  for (let rejections = 0; ; rejections += 1) {
    const used = channel.current;
    try {
      return await exchangeOnce(used, o);
    } catch (error) {
      const isUnprocessed =
        isServiceError(error) &&
        (isRejected(error) || (isUnsent(error) && used !== channel.current));
      if (isUnprocessed && rejections < MAX_REJECTIONS) continue;
      if (isServiceError(error) && isExhausted(error)) {
        channel.replace(used);
        throw new ConnectError('connection exhausted', Code.Unavailable);
      }
      throw isServiceError(error) ? toConnectError(error) : error;
    }
  }
}

/** The text of grpc-js for REFUSED_STREAM. */
const REJECTED = 'Stream refused by server';

function isRejected({ code, details }: ServiceError): boolean {
  return code === status.UNAVAILABLE && details === REJECTED;
}

/** The text of grpc-js for calls that waited for a connection when their channel was closed. */
const UNSENT = 'Channel closed before call started';

function isUnsent({ code, details }: ServiceError): boolean {
  return code === status.UNAVAILABLE && details === UNSENT;
}

/**
 * The text of grpc-js for ENHANCE_YOUR_CALM of HTTP/2: the server has no memory left for the connection. This call is
 * not the cause.
 */
const EXHAUSTED = 'Bandwidth exhausted or memory limit exceeded';

function isExhausted({ code, details }: ServiceError): boolean {
  return code === status.RESOURCE_EXHAUSTED && details.startsWith(EXHAUSTED);
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error && 'metadata' in error;
}

function exchangeOnce<T>(
  channel: Channel,
  { path, metadata, deadline, signal, write, read }: Exchange<T>,
): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const call = channel.makeUnaryRequest(
      path,
      write,
      read,
      undefined,
      metadata,
      { deadline },
      (error, response) => {
        signal?.removeEventListener('abort', cancel);
        if (error) reject(error);
        else resolve(response);
      },
    );
    const cancel = (): void => call.cancel();
    if (signal?.aborted) cancel();
    else signal?.addEventListener('abort', cancel, { once: true });
  });
}

/** Returns a buffer over the same bytes, without a copy. */
function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** The error for an interceptor that passed a message of the wrong type. */
function wrongMessageType(path: string): ConnectError {
  return new ConnectError(`${path}: wrong type of message`, Code.Internal);
}

function metadataOf(header: Headers): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of header) metadata.set(name, value);
  return metadata;
}

const CHANNEL_OPTIONS: ClientOptions = {
  // Balance calls over all pods behind the name.
  'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
  'grpc.service_config_disable_resolution': 1,
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  // Detect within 15 s that a pod disappeared without closing its connections. TCP needs longer.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  // Find a restarted service within a second.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  'grpc.dns_min_time_between_resolutions_ms': 1_000,
  // Do not share connections between the channels of a process, because the backoff of one would delay another.
  'grpc.use_local_subchannel_pool': 1,
};

/** The alert of TLS 1.3 (RFC 8446, 6.2) in the text of grpc-js, when the server requires a certificate of its clients. */
const CERTIFICATE_REQUIRED = 'alert certificate required';

/** Converts an error of grpc-js. Keeps the code, the text and the typed details. */
function toConnectError(error: ServiceError): ConnectError {
  if (error.code === status.UNAVAILABLE && error.details.includes(CERTIFICATE_REQUIRED)) {
    const text = 'the server requires a client certificate: set GRPC_TLS_CERT_FILE';
    return new ConnectError(text, Code.Unavailable);
  }
  const trailer = new Headers({
    'grpc-status': String(error.code),
    'grpc-message': encodeURIComponent(error.details),
  });
  const [details] = error.metadata.get('grpc-status-details-bin');
  if (Buffer.isBuffer(details)) trailer.set('grpc-status-details-bin', details.toString('base64'));
  return findTrailerError(trailer) ?? new ConnectError(error.details, Code.Unknown);
}
