import { type RunningServer, startGrpcServer } from './grpc/server.ts';
import { healthRoutes } from './health.ts';

/** The service name in the request of the liveness probe. */
export const LIVENESS_SERVICE = 'rms.liveness';

/**
 * Serves `grpc.health.v1` on a port of its own, in plain text, for the liveness probe: the kubelet's gRPC probes support
 * neither TLS nor tokens. The status is always SERVING and does not depend on the database, because a restart does not
 * repair a database. A process whose event loop does not run sends no response, so the kubelet restarts it.
 *
 * @throws when the port is taken.
 */
export function startLiveness(o: {
  readonly host?: string;
  /** TCP port; 0 takes a free one. */
  readonly port: number;
}): Promise<RunningServer> {
  return startGrpcServer({ ...o, routes: healthRoutes([LIVENESS_SERVICE], async () => true) });
}
