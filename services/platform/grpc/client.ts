import type { DescService } from '@bufbuild/protobuf';
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import {
  type Client,
  Code,
  ConnectError,
  createClient,
  type Interceptor,
} from '@connectrpc/connect';
import { currentCaller } from '../caller.ts';
import type { ClientIdentity } from '../identity.ts';
import type { Telemetry } from '../telemetry.ts';
import { clientInstrumentation } from './instrumentation.ts';
import { retryIdempotent } from './retry.ts';
import { createGrpcTransport, NEVER } from './transport.ts';

/**
 * Default deadline of a call. Every call has one, so that a hanging pod does not make its callers hang. Milliseconds.
 */
const DEFAULT_TIMEOUT_MS = 5_000;

export interface ServiceClientOptions {
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
      clientInstrumentation(o.telemetry),
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
