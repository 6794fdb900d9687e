import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  Code,
  ConnectError,
  createContextValues,
  type Interceptor,
  type Transport,
} from '@connectrpc/connect';
import { runUnaryCall } from '@connectrpc/connect/protocol';
import { findTrailerError } from '@connectrpc/connect/protocol-grpc';
import {
  Client,
  type ClientOptions,
  type ClientUnaryCall,
  credentials,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { MAX_MESSAGE_BYTES } from './limits.ts';

export interface TransportOptions {
  /** A gRPC name, such as `dns:///destinations:8080`. */
  readonly target: string;
  /** Deadline of a call that names none. Milliseconds. */
  readonly timeoutMs: number;
  readonly interceptors: Interceptor[];
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
  const channel = new Client(o.target, credentials.createInsecure(), CHANNEL_OPTIONS);

  return {
    close: () => channel.close(),

    unary(method, signal, timeoutMs, header, input, contextValues) {
      const limitMs = timeoutMs ?? o.timeoutMs;
      const deadline = Date.now() + limitMs;
      return runUnaryCall({
        req: {
          stream: false,
          service: method.parent,
          method,
          requestMethod: 'POST',
          url: `${o.target}/${method.parent.typeName}/${method.name}`,
          header: new Headers(header),
          contextValues: contextValues ?? createContextValues(),
          message: input,
        },
        interceptors: o.interceptors,
        ...(signal && { signal }),
        timeoutMs: limitMs,
        next: (req) =>
          new Promise((resolve, reject) => {
            let call: ClientUnaryCall | undefined;
            const cancel = (): void => call?.cancel();
            call = channel.makeUnaryRequest(
              `/${method.parent.typeName}/${method.name}`,
              (message) => Buffer.from(toBinary(method.input, message)),
              (bytes) => fromBinary(method.output, bytes),
              req.message,
              metadataOf(req.header),
              { deadline },
              (error, message) => {
                req.signal.removeEventListener('abort', cancel);
                if (error) return reject(toConnectError(error));
                resolve({
                  stream: false,
                  service: method.parent,
                  method,
                  header: new Headers(),
                  trailer: new Headers(),
                  message: message ?? create(method.output),
                });
              },
            );
            if (req.signal.aborted) cancel();
            else req.signal.addEventListener('abort', cancel, { once: true });
          }),
      });
    },

    stream() {
      return Promise.reject(new ConnectError('streaming is not supported', Code.Unimplemented));
    },
  };
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
