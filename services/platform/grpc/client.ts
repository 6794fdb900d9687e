import type { DescService } from '@bufbuild/protobuf';
import { type Client, createClient, type Interceptor } from '@connectrpc/connect';
import type { ClientIdentity } from '../identity.ts';
import type { Telemetry } from '../telemetry.ts';
import { clientInstrumentation } from './instrumentation.ts';
import { retryIdempotent } from './retry.ts';
import { createGrpcTransport } from './transport.ts';

/** Every call has a deadline: a hung pod must not hang its callers. Milliseconds. */
const DEFAULT_TIMEOUT_MS = 5_000;

export interface ServiceClientOptions {
  /** A gRPC name: `dns:///returns:8080`, `127.0.0.1:9001`. */
  readonly target: string;
  readonly identity: ClientIdentity;
  /** Deadline of calls that name none of their own (`{ timeoutMs }` as the call's option). Milliseconds. */
  readonly timeoutMs?: number;
  readonly telemetry?: Telemetry;
}

/**
 * A typed client of one service, over a channel of its own.
 *
 * Calls carry the service token and the trace. They fail with ConnectError: use `reasonOf`,
 * `fieldOf` and `isUnavailable` to tell failures apart. Connecting is lazy, so a client may be made
 * before the service is up.
 */
export function createServiceClient<S extends DescService>(
  service: S,
  o: ServiceClientOptions,
): { readonly client: Client<S>; close(): void } {
  const transport = createGrpcTransport({
    target: o.target,
    timeoutMs: o.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    ...(o.identity.tls && { tls: o.identity.tls }),
    interceptors: [clientInstrumentation(o.telemetry), retryIdempotent(), sendIdentity(o.identity)],
  });
  return { client: createClient(service, transport), close: () => transport.close() };
}

/** Sends the service token as `authorization: Bearer …`, read again for each call. */
function sendIdentity(identity: ClientIdentity): Interceptor {
  return (next) => async (req) => {
    req.header.set('authorization', `Bearer ${await identity.token()}`);
    return next(req);
  };
}
