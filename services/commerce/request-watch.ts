import type pg from 'pg';
import type { Queryable } from '../platform/postgres/postgres.ts';
import { startLoop, type Worker } from '../platform/process/worker.ts';
import type { Logger } from '../platform/telemetry/log.ts';
import { isUnknownOutcome } from './unknown-outcomes.ts';

/** A request for an effect whose outcome is unknown. */
export interface OpenRequest {
  readonly shopId: bigint;
  readonly returnId: bigint;
  readonly kind: string;
  /** When it was recorded, as text. Each request for an effect has another value. */
  readonly askedAt: string;
}

/**
 * Measures for how long requests have certainly been open. The times in the database do not say it, because somebody
 * may set the clock of the database.
 */
export interface RequestWatch {
  /**
   * Returns how long ago this process first saw the request, by the monotonic clock; 0 for a request that it sees for
   * the first time. The request was recorded, and signed, before that. Milliseconds.
   */
  seenMs(request: OpenRequest): number;
}

/** Maximum number of requests that are remembered. A request that was forgotten counts as new. */
const MAX_SEEN = 20_000;

export function createRequestWatch(): RequestWatch {
  /** When this process first saw each request, by the monotonic clock. The one that was read last is at the end. */
  const seen = new Map<string, number>();
  return {
    seenMs({ shopId, returnId, kind, askedAt }) {
      const name = `${shopId}/${returnId}/${kind}/${askedAt}`;
      const now = performance.now();
      const since = seen.get(name) ?? now;
      seen.delete(name);
      seen.set(name, since);
      const [oldest = name] = seen.keys();
      if (seen.size > MAX_SEEN) seen.delete(oldest);
      return now - since;
    },
  };
}

/** How often the open requests are read. Milliseconds. */
const EVERY_MS = 10_000;
const MAX_READ = MAX_SEEN / 2;

/** Starts the loop that sees the open requests of all processes, so that any process can repeat them after a crash. */
export function startRequestWatch(o: {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly watch: RequestWatch;
}): Worker {
  return startLoop({
    name: 'request watch',
    idleMs: EVERY_MS,
    logger: o.logger,
    step: async () => {
      await seeOpenRequests(o.pool, o.watch);
      return 'idle';
    },
  });
}

/** Sees the newest requests with an unknown outcome. */
export async function seeOpenRequests(db: Queryable, watch: RequestWatch): Promise<void> {
  const { rows } = await db.query<OpenRequest>({
    name: 'open-requests',
    text: `select shop_id as "shopId", return_id as "returnId", kind, asked_at::text as "askedAt"
             from processing_outcomes o where ${isUnknownOutcome('o')}
            order by asked_at desc limit $1`,
    values: [MAX_READ],
  });
  for (const request of rows) watch.seenMs(request);
}
