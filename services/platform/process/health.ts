import { Code, ConnectError, type ConnectRouter } from '@connectrpc/connect';
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import type { Queryable } from '../postgres/postgres.ts';
import { withoutCaller } from '../rpc/caller.ts';
import { within } from './within.ts';

/** Time limit of a check. A probe must respond before its caller times out. Milliseconds. */
const PROBE_TIMEOUT_MS = 2_000;

/** For this time, the probes of all clients share the result of one query. Milliseconds. */
const PROBE_CACHE_MS = 250;

/** Maximum size of a request, which needs no token. It has only the name of a service. Bytes. */
const REQUEST_MAX_BYTES = 4_096;

/**
 * Serves the standard gRPC health service: for each service of this server by its name, and for the whole server ("").
 *
 * @param services full names of the services on this server. Other names are NOT_FOUND.
 * @param isReady called on every check. False or a rejection means NOT_SERVING.
 * @see https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export function healthRoutes(services: readonly string[], isReady: () => Promise<boolean>) {
  return (router: ConnectRouter): void => {
    router.rpc(
      Health.method.check,
      async ({ service }) => {
        if (service !== '' && !services.includes(service)) {
          throw new ConnectError('unknown service', Code.NotFound);
        }
        const ready = await isReady().catch(() => false);
        return { status: ready ? Status.SERVING : Status.NOT_SERVING };
      },
      { readMaxBytes: REQUEST_MAX_BYTES },
    );
  };
}

/**
 * Creates the check whether the database answers. It runs one query at a time, at most four times a second. It uses
 * monotonic time, so that an old result does not stay valid when the system clock is set back.
 *
 * @param pools at least one of them must answer. All connections of the other pool may wait for a lock, and the service
 *   must still serve calls that do not need this lock.
 */
export function databaseProbe(...pools: readonly Queryable[]): () => Promise<boolean> {
  let last: Promise<boolean> | undefined;
  let until = 0;
  return () => {
    if (last && performance.now() < until) return last;
    until = performance.now() + PROBE_TIMEOUT_MS;
    // Run the query without a caller. The caller of one probe may disconnect while others wait for the same result.
    last = withoutCaller(() => isAnyUp(pools)).finally(() => {
      until = performance.now() + PROBE_CACHE_MS;
    });
    return last;
  };
}

function isAnyUp(pools: readonly Queryable[]): Promise<boolean> {
  const result = Promise.any(pools.map((pool) => pool.query('select 1')));
  return within(PROBE_TIMEOUT_MS, result).catch(() => false);
}
