import type pg from 'pg';
import type { ServiceConfig } from '../process/config.ts';
import { deadline } from '../process/deadlines.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { serveCallers, waitingFor } from './caller-pool.ts';
import { createPool, openSecondPool, type PoolOptions } from './postgres.ts';

/** The connections of a service. */
export interface Pools {
  /** The connections for calls. The statements of a caller that has disconnected are cancelled. See `serveCallers`. */
  readonly pool: pg.Pool;
  /** The connections for all other work. Calls cannot use up its connections. */
  readonly backgroundPool: pg.Pool;
  /**
   * The connections for the relay and the consumers, which repeat a few statements. Each is planned once for each
   * connection.
   */
  readonly streamPool: pg.Pool;
}

/** Number of connections for background work, as a part of the number for calls. */
const BACKGROUND_SHARE = 0.5;
/**
 * Number of connections of the relay and the consumers. A relay needs two, to read and to renew its lease at the same
 * time. A consumer usually needs one.
 */
const STREAM_CONNECTIONS = 3;
/**
 * Settings for statements that repeat all the time and read a few rows by indexes. Planning takes longer than such a
 * statement, so each is planned once for each connection. The statistics of tables that fill and empty mislead the
 * planner, so other plans are disabled.
 */
export const STREAM_SETTINGS = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
};

/**
 * Maximum duration of a statement, which is the longest deadline of a call. When a caller disconnects earlier, its
 * statements are cancelled. Milliseconds.
 */
const STATEMENT_TIMEOUT_MS = deadline(20_000);
/**
 * Maximum wait for a lock. It is below the deadline of most calls, so that a call that waits for a lock gets an error
 * in time. Milliseconds.
 */
const LOCK_TIMEOUT_MS = 4_000;

/** Opens the pools of a service. Connections are opened when they are needed. */
export function openPools(
  o: Pick<ServiceConfig, 'DATABASE_URL' | 'DATABASE_POOL_MAX' | 'MAX_CALLS_IN_FLIGHT'>,
  settings: PoolOptions,
): Pools {
  const max = o.DATABASE_POOL_MAX;
  const backgroundPool = createPool(o.DATABASE_URL, {
    ...settings,
    max: Math.ceil(max * BACKGROUND_SHARE),
  });
  const pool = createPool(o.DATABASE_URL, {
    ...settings,
    max,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
  });
  // Reads and other calls have separate limits, and all of these calls may wait.
  const calls = 2 * o.MAX_CALLS_IN_FLIGHT;
  const stream = { max: STREAM_CONNECTIONS, settings: STREAM_SETTINGS };
  return {
    pool: serveCallers(pool, backgroundPool, calls),
    backgroundPool,
    streamPool: openSecondPool(backgroundPool, stream),
  };
}

/** Closes all pools. Waits until nobody uses their connections. */
export async function closePools({ pool, backgroundPool, streamPool }: Pools): Promise<void> {
  await Promise.all([pool.end(), backgroundPool.end(), streamPool.end()]);
}

/**
 * Adds the number of connections by state and pool, and of callers without one, as the semantic conventions of
 * OpenTelemetry name them.
 *
 * @param pools by their names in the metric.
 */
export function measurePools(telemetry: Telemetry, pools: Readonly<Record<string, pg.Pool>>): void {
  const count = telemetry.meter.createObservableGauge('db.client.connection.count', {
    description: 'Connections by pool and state',
  });
  const pending = telemetry.meter.createObservableGauge('db.client.connection.pending_requests', {
    description: 'Callers without a connection, by pool',
  });
  telemetry.meter.addBatchObservableCallback(
    (result) => {
      for (const [name, one] of Object.entries(pools)) {
        const pool = { 'db.client.connection.pool.name': name };
        const state = 'db.client.connection.state';
        result.observe(count, one.totalCount - one.idleCount, { ...pool, [state]: 'used' });
        result.observe(count, one.idleCount, { ...pool, [state]: 'idle' });
        result.observe(pending, waitingFor(one), pool);
      }
    },
    [count, pending],
  );
}
