import { type Client, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace';
import { pino } from 'pino';
import { CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { startServiceServer } from '../../../services/platform/process/service.ts';
import { createServiceClient } from '../../../services/platform/rpc/client.ts';
import type { MeshHeader } from '../../../services/platform/rpc/mesh.ts';
import type { RunningServer } from '../../../services/platform/rpc/server.ts';
import {
  type ServiceIdentity,
  staticIdentity,
  systemActor,
} from '../../../services/platform/security/identity.ts';
import { startTelemetry, type Telemetry } from '../../../services/platform/telemetry/telemetry.ts';
import { SERVICE_TOKEN } from '../settings.ts';

/** The service identity that servers of the bench accept. */
export const identity = staticIdentity(SERVICE_TOKEN);
export const actor = systemActor('test');
/** A request that is valid, so that it reaches the handler. */
export const cart = { shopId: 1n, actor, token: 'x' };

/** Servers and clients for tests of the RPC layer, with any small service. */
export interface RpcBench {
  readonly telemetry: Telemetry;
  readonly spans: InMemorySpanExporter;
  /** The log lines of the servers. */
  readonly logged: readonly string[];
  /** Functions that `stop` runs in reverse order. */
  readonly cleanups: (() => unknown)[];
  serve(
    impl: Partial<ServiceImpl<typeof CartsService>>,
    o?: {
      port?: number;
      isOpen?: () => boolean;
      isReady?: () => Promise<boolean>;
      maxCallsInFlight?: number;
      identity?: ServiceIdentity;
      host?: string;
      meshHeader?: MeshHeader;
    },
  ): Promise<RunningServer>;
  clientOf(
    server: { port: number },
    o?: { timeoutMs?: number; token?: string },
  ): Client<typeof CartsService>;
  close(): Promise<void>;
}

export async function startRpcBench(): Promise<RpcBench> {
  const spans = new InMemorySpanExporter();
  const spanProcessors = [new SimpleSpanProcessor({ exporter: spans })];
  const telemetry = await startTelemetry({ service: 'test', metricsPort: 0, spanProcessors });
  const logged: string[] = [];
  const cleanups: (() => unknown)[] = [];

  return {
    telemetry,
    spans,
    logged,
    cleanups,

    async serve(impl, o = {}) {
      const server = await startServiceServer({
        port: o.port ?? 0,
        routes: (router) => void router.service(CartsService, impl),
        identity: o.identity ?? identity,
        logger: pino({}, { write: (line: string) => void logged.push(line) }),
        telemetry,
        reflection: true,
        isReady: o.isReady ?? (async () => true),
        isOpen: o.isOpen ?? (() => true),
        maxCallsInFlight: o.maxCallsInFlight ?? 100,
        meshHeader: o.meshHeader,
        ...(o.host !== undefined && { host: o.host }),
      });
      cleanups.push(() => server.stop());
      return server;
    },

    clientOf(server, o = {}) {
      const made = createServiceClient(CartsService, {
        target: `127.0.0.1:${server.port}`,
        identity: o.token ? staticIdentity(o.token) : identity,
        telemetry,
        ...(o.timeoutMs !== undefined && { timeoutMs: o.timeoutMs }),
      });
      cleanups.push(() => made.close());
      return made.client;
    },

    async close() {
      for (const cleanup of cleanups.reverse()) await cleanup();
      await telemetry.stop();
    },
  };
}

/** The error of a call that must fail. */
export async function failure(call: Promise<unknown>): Promise<ConnectError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof ConnectError) return error;
  throw new Error('the call did not fail with a ConnectError');
}
