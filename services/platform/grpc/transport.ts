import { setMaxListeners } from 'node:events';
import { create, fromBinary, isMessage, toBinary } from '@bufbuild/protobuf';
import {
  Code,
  ConnectError,
  createContextValues,
  type Interceptor,
  type Transport,
} from '@connectrpc/connect';
import { findTrailerError } from '@connectrpc/connect/protocol-grpc';
import { Client, type ClientOptions, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { MAX_MESSAGE_BYTES } from './limits.ts';
import { channelCredentials, type GrpcTls } from './tls.ts';

export interface TransportOptions {
  /** A gRPC name, such as `dns:///destinations:8080`. */
  readonly target: string;
  /** Deadline of a call that names none. Milliseconds. */
  readonly timeoutMs: number;
  readonly interceptors: Interceptor[];
  /** Plain text without. */
  readonly tls?: GrpcTls;
}

/**
 * A Connect transport whose channel is grpc-js.
 *
 * Connect gives typed clients and interceptors. grpc-js gives what a cluster needs of a channel: it
 * resolves every pod behind a headless service and balances over them, where a single HTTP/2
 * connection would pin all calls to one pod. Unary calls only: the system has no streams.
 *
 * @see https://github.com/grpc/grpc/blob/master/doc/naming.md
 */
export function createGrpcTransport(o: TransportOptions): Transport & { close(): void } {
  const open = (): Client => new Client(o.target, channelCredentials(o.tls), CHANNEL_OPTIONS);
  let channel = open();
  const replace = (exhausted: Client): void => {
    if (exhausted !== channel) return;
    channel = open();
    exhausted.close();
  };

  // A channel keeps the certificates that it was opened with. Its calls finish.
  const forgetFiles = o.tls?.files.onChange(() => replace(channel));

  return {
    close() {
      forgetFiles?.();
      channel.close();
    },

    async unary(method, signal, timeoutMs, header, input, contextValues) {
      const deadline = Date.now() + (timeoutMs ?? o.timeoutMs);
      const path = `/${method.parent.typeName}/${method.name}`;
      const unary = { stream: false, service: method.parent, method } as const;
      const send: Next = async (req) => {
        if (!isMessage(req.message, method.input)) throw foreign(path);
        const { message: asked, header, signal: leave } = req;
        const answer = await exchange({
          current: () => channel,
          replace,
          path,
          metadata: metadataOf(header),
          deadline,
          signal: leave === NEVER ? undefined : leave,
          write: () => bufferOf(toBinary(method.input, asked)),
          read: (bytes) => fromBinary(method.output, bytes),
        });
        const message = answer ?? create(method.output);
        return { ...unary, header: new Headers(), trailer: new Headers(), message };
      };
      const call = o.interceptors.reduceRight((next, intercept) => intercept(next), send);
      try {
        const {
          message,
          header: head,
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
        if (!isMessage(message, method.output)) throw foreign(path);
        return { ...unary, header: head, trailer, message };
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

/**
 * The signal of calls that nobody can give up. Their time is limited by the deadline that the channel
 * keeps: signals of their own, and the errors with stacks that end them, would cost more than the calls.
 */
export const NEVER = new AbortController().signal;
// Retries of many calls listen at once, each for its pause.
setMaxListeners(0, NEVER);

interface Exchange<T> {
  /** The channel of calls that begin now. */
  readonly current: () => Client;
  /** Has later calls go over new connections. */
  readonly replace: (exhausted: Client) => void;
  readonly path: string;
  readonly metadata: Metadata;
  /** Milliseconds since 1970. */
  readonly deadline: number;
  readonly signal: AbortSignal | undefined;
  readonly write: () => Buffer;
  readonly read: (bytes: Buffer) => T;
}

/** Connections end now and then: so often in a row none does. */
const MOST_REFUSALS = 5;

/**
 * One request and its answer; undefined when the answer has no message. What met the end of its connection
 * was looked at by nobody (HTTP/2: REFUSED_STREAM), so it is sent again, whatever it asks for; so is what
 * waited for a connection while its channel was replaced.
 */
async function exchange<T>(o: Exchange<T>): Promise<T | undefined> {
  for (let refusals = 0; ; refusals += 1) {
    const channel = o.current();
    try {
      return await exchangeOnce(channel, o);
    } catch (error) {
      const isUnseen =
        isServiceError(error) && (isRefused(error) || (isUnsent(error) && channel !== o.current()));
      if (isUnseen && refusals < MOST_REFUSALS) continue;
      if (isServiceError(error) && isExhausted(error)) {
        o.replace(channel);
        throw new ConnectError('connection exhausted', Code.Unavailable);
      }
      throw isServiceError(error) ? toConnectError(error) : error;
    }
  }
}

/** As grpc-js words it. */
const REFUSED = 'Stream refused by server';

function isRefused({ code, details }: ServiceError): boolean {
  return code === status.UNAVAILABLE && details === REFUSED;
}

/** As grpc-js words it, of calls that waited for a connection when their channel was closed. */
const UNSENT = 'Channel closed before call started';

function isUnsent({ code, details }: ServiceError): boolean {
  return code === status.UNAVAILABLE && details === UNSENT;
}

/** HTTP/2: ENHANCE_YOUR_CALM, which says nothing about the call: the peer has no memory left for the connection. */
const EXHAUSTED = 'Bandwidth exhausted or memory limit exceeded';

function isExhausted({ code, details }: ServiceError): boolean {
  return code === status.RESOURCE_EXHAUSTED && details.startsWith(EXHAUSTED);
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error && 'metadata' in error;
}

function exchangeOnce<T>(
  channel: Client,
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
      (error, answer) => {
        signal?.removeEventListener('abort', cancel);
        if (error) reject(error);
        else resolve(answer);
      },
    );
    const cancel = (): void => call.cancel();
    if (signal?.aborted) cancel();
    else signal?.addEventListener('abort', cancel, { once: true });
  });
}

/** The same bytes, not a copy of them. */
function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** An interceptor that makes of a call what it is not. */
function foreign(path: string): ConnectError {
  return new ConnectError(`${path}: not a message of this call`, Code.Internal);
}

function metadataOf(header: Headers): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of header) metadata.set(name, value);
  return metadata;
}

const CHANNEL_OPTIONS: ClientOptions = {
  // Every pod behind the name gets its share.
  'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
  'grpc.service_config_disable_resolution': 1,
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  // A pod that vanished without a word is noticed within 15 s, not when TCP gives up.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  // A service that was restarted is found again within a second.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  'grpc.dns_min_time_between_resolutions_ms': 1_000,
  // Channels of one process must not share connections, or a backoff of one would hold up another.
  'grpc.use_local_subchannel_pool': 1,
};

/** Keeps the code, the text and the typed details of a failed call. */
function toConnectError(error: ServiceError): ConnectError {
  const trailer = new Headers({
    'grpc-status': String(error.code),
    'grpc-message': encodeURIComponent(error.details),
  });
  const [details] = error.metadata.get('grpc-status-details-bin');
  if (Buffer.isBuffer(details)) trailer.set('grpc-status-details-bin', details.toString('base64'));
  return findTrailerError(trailer) ?? new ConnectError(error.details, Code.Unknown);
}
