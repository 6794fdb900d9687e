import { type RunningServer, startGrpcServer } from './grpc/server.ts';
import { healthRoutes } from './health.ts';

/** The name of the service that the liveness probe requests. */
export const LIVENESS_SERVICE = 'rms.liveness';

/**
 * Serves `grpc.health.v1` for the liveness probe, on a port of its own and in plain text. The kubelet's gRPC probes
 * support neither TLS nor tokens.
 *
 * The status is always SERVING. It does not depend on the database, because a restart does not repair a database. A
 * process whose event loop hangs sends no response, so the kubelet restarts it.
 *
 * @throws when the port is in use.
 */
export function startLiveness(o: {
  readonly host?: string;
  /** TCP port. With 0 the kernel chooses a free one. */
  readonly port: number;
}): Promise<RunningServer> {
  return startGrpcServer({ ...o, routes: healthRoutes([LIVENESS_SERVICE], async () => true) });
}
