import type pg from 'pg';
import { serveCallers, waitingFor } from './caller-pool.ts';
import type { ServiceConfig } from './config.ts';
import { createPool, openSecondPool, type PoolOptions } from './postgres.ts';
import type { Telemetry } from './telemetry.ts';

/** The connections of a service. */
export interface Pools {
  /** For calls. Statements whose callers have disconnected are cancelled. See `serveCallers`. */
  readonly pool: pg.Pool;
  /** For all other work. Calls cannot use up its connections. */
  readonly backgroundPool: pg.Pool;
  /** For the relay and the consumers: a few statements that repeat, planned once per connection. */
  readonly streamPool: pg.Pool;
}

/** Connections for background work, as a part of those for calls. */
const BACKGROUND_SHARE = 0.5;
/** A relay reads and renews its lease at the same time. A consumer usually needs one. */
const STREAM_CONNECTIONS = 3;
/**
 * For statements that repeat all the time and read a few rows by indexes. Each is planned once per connection, because
 * planning takes longer than the statement. The statistics of tables that fill and empty mislead the planner, so other
 * plans are disabled.
 */
export const STREAM_SETTINGS = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
};

/** The longest deadline of a call. When a caller disconnects earlier, its statements are cancelled. Milliseconds. */
const STATEMENT_TIMEOUT_MS = 20_000;
/** Below the deadline of most calls, so that a call which waits for a lock gets an error in time. Milliseconds. */
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
  // Reads and other calls have separate limits, and all of them may wait.
  const calls = 2 * o.MAX_CALLS_IN_FLIGHT;
  const stream = { max: STREAM_CONNECTIONS, settings: STREAM_SETTINGS };
  return {
    pool: serveCallers(pool, backgroundPool, calls),
    backgroundPool,
    streamPool: openSecondPool(backgroundPool, stream),
  };
}

/** Closes all pools. Waits for the current users of their connections. */
export async function closePools({ pool, backgroundPool, streamPool }: Pools): Promise<void> {
  await Promise.all([pool.end(), backgroundPool.end(), streamPool.end()]);
}

/** Metrics of the connections by state and pool. */
export function measurePools(telemetry: Telemetry, o: Pools): void {
  const gauge = telemetry.meter.createObservableGauge('db.client.connections', {
    description: 'Connections by pool and state; waiting counts callers without one',
  });
  const pools = { calls: o.pool, background: o.backgroundPool, stream: o.streamPool };
  gauge.addCallback((result) => {
    for (const [name, one] of Object.entries(pools)) {
      result.observe(one.totalCount - one.idleCount, { state: 'used', pool: name });
      result.observe(one.idleCount, { state: 'idle', pool: name });
      result.observe(waitingFor(one), { state: 'waiting', pool: name });
    }
  });
}
