import type { DescService } from '@bufbuild/protobuf';
import { Code, ConnectError, type ConnectRouter } from '@connectrpc/connect';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.ts';
import { callerScope } from './caller.ts';
import { callerInterceptor, createAuthorizer } from './grpc/authorization.ts';
import { errorInterceptor } from './grpc/errors.ts';
import { createInFlight } from './grpc/in-flight.ts';
import { callRecorder, serverInstrumentation } from './grpc/instrumentation.ts';
import { type RunningServer, startGrpcServer } from './grpc/server.ts';
import { healthRoutes } from './health.ts';
import type { ServiceIdentity } from './identity.ts';
import type { Logger } from './log.ts';
import { reflectionRoutes } from './reflection.ts';
import type { Telemetry } from './telemetry.ts';

export interface ServiceServerOptions {
  readonly host?: string;
  readonly port: number;
  readonly routes: (router: ConnectRouter) => void;
  readonly identity: ServiceIdentity;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Whether to serve reflection, for grpcurl and similar tools. */
  readonly reflection: boolean;
  /** The result of the health service. */
  readonly isReady: () => Promise<boolean>;
  /** Whether the server accepts calls. When false, it rejects them with UNAVAILABLE. */
  readonly isOpen: () => boolean;
  /** Maximum number of reads in flight; also the maximum number of other calls in flight. */
  readonly maxCallsInFlight: number;
}

/** Starts a gRPC server with the service's own routes and the parts that all services share. */
export function startServiceServer(o: ServiceServerOptions): Promise<RunningServer> {
  const record = callRecorder(o.telemetry.meter, 'server');
  const { identity, logger } = o;
  const authorize = createAuthorizer({
    identity,
    logger,
    onRejected: (rpc, code) => record(rpc, Code[code], 0),
  });
  const inFlight = createInFlight(o.maxCallsInFlight);
  const shed = o.telemetry.meter.createCounter('rpc.server.shed', {
    description: 'Calls rejected because too many were in flight',
  });
  const services: DescService[] = [];

  return startGrpcServer({
    ...(o.host !== undefined && { host: o.host }),
    port: o.port,
    logger,
    ...(identity.tls && { tls: identity.tls }),
    interceptors: [
      serverInstrumentation(o.telemetry, record),
      errorInterceptor(logger),
      callerInterceptor(logger),
      inFlight.interceptor,
      callerScope(),
    ],
    async admit(context) {
      await authorize(context);
      if (context.service.typeName === Health.typeName) return;
      if (!o.isOpen()) throw new ConnectError('unavailable', Code.Unavailable);
      try {
        inFlight.enter(context);
      } catch (error) {
        shed.add(1, { 'rpc.method': context.method.name });
        throw error;
      }
    },
    routes(router) {
      o.routes(router);
      services.push(...new Set(router.handlers.map((handler) => handler.service)));
      const names = services.map((service) => service.typeName);
      healthRoutes(names, o.isReady)(router);
      if (o.reflection) reflectionRoutes([...services, Health])(router);
    },
  });
}
