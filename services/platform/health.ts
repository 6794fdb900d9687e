import { Code, ConnectError, type ConnectRouter } from '@connectrpc/connect';
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from '../../proto/gen/grpc/health/v1/health_pb.ts';
import { withoutCaller } from './caller.ts';
import type { Queryable } from './postgres.ts';
import { within } from './within.ts';

/** A probe must respond before the timeout of its caller. Milliseconds. */
const PROBE_TIMEOUT_MS = 2_000;

/** Probes of many clients within this time share one query. Milliseconds. */
const PROBE_CACHE_MS = 250;

/**
 * The standard gRPC health service, for each service of this server by name and for the whole ("").
 *
 * @param services full names of the services on this server. Other names are NOT_FOUND.
 * @param isReady called on every check. False or a rejection means NOT_SERVING.
 * @see https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export function healthRoutes(services: readonly string[], isReady: () => Promise<boolean>) {
  return (router: ConnectRouter): void => {
    router.rpc(Health.method.check, async ({ service }) => {
      if (service !== '' && !services.includes(service)) {
        throw new ConnectError('unknown service', Code.NotFound);
      }
      const ready = await isReady().catch(() => false);
      return { status: ready ? Status.SERVING : Status.NOT_SERVING };
    });
  };
}

/**
 * Whether the database answers. Runs one query at a time, at most four times a second. Uses monotonic time: when the
 * system clock is set back, an old result must not stay valid.
 *
 * @param pools it is enough that one of them answers. All connections of the other may wait for a lock, and the service
 *   must still serve calls that do not need the lock.
 */
export function databaseProbe(...pools: readonly Queryable[]): () => Promise<boolean> {
  let last: Promise<boolean> | undefined;
  let until = 0;
  return () => {
    if (last && performance.now() < until) return last;
    until = performance.now() + PROBE_TIMEOUT_MS;
    // The caller of one probe may disconnect while other callers wait for the same result.
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
