import type { Meter, ObservableCallback } from '@opentelemetry/api';
import { askedInTime } from '../../platform/asked-in-time.ts';
import type { Queryable } from '../../platform/postgres.ts';
import type { Worker } from '../../platform/worker.ts';

/**
 * Measures for how long the oldest return has waited to be processed, until it is stopped. What an outage of
 * ours interrupts is tried again without counting: only its age shows a return that is tried for ever.
 */
export function measureBacklog(o: { readonly pool: Queryable; readonly meter: Meter }): Worker {
  const age = o.meter.createObservableGauge('processing_oldest_age_seconds', {
    description: 'Time since the oldest return that is not processed yet was queued.',
    unit: 's',
  });
  const ask = askedInTime(() => oldestAgeSeconds(o.pool));
  const observe: ObservableCallback = async (result) => {
    const seconds = await ask();
    if (seconds !== undefined) result.observe(seconds);
  };
  age.addCallback(observe);
  return { stop: async () => age.removeCallback(observe) };
}

/** 0 when none waits. */
async function oldestAgeSeconds(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ seconds: number }>(
    `select coalesce(extract(epoch from now() - min(queued_at)), 0)::float8 as seconds
       from processing_jobs where state in ('queued', 'running')`,
  );
  return rows[0]?.seconds ?? 0;
}
