import type { Meter, ObservableCallback } from '@opentelemetry/api';
import { onlyRow } from '../../platform/only-row.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { sharedWithTimeout } from '../../platform/shared-with-timeout.ts';
import type { Worker } from '../../platform/worker.ts';
import { OPEN_JOB } from './jobs.ts';

/**
 * Adds a metric: how long the oldest queued return has waited. An internal outage does not count as a failure of
 * processing. So only this age shows a return that is tried again and again.
 */
export function measureBacklog(o: { readonly pool: Queryable; readonly meter: Meter }): Worker {
  const age = o.meter.createObservableGauge('processing_oldest_age_seconds', {
    description: 'Time since the oldest return that is not processed yet was queued.',
    unit: 's',
  });
  const readAge = sharedWithTimeout(() => oldestAgeSeconds(o.pool));
  const observe: ObservableCallback = async (result) => {
    const seconds = await readAge();
    if (seconds !== undefined) result.observe(seconds);
  };
  age.addCallback(observe);
  return { stop: async () => age.removeCallback(observe) };
}

/** Returns the age in seconds; 0 when no return is queued. */
async function oldestAgeSeconds(db: Queryable): Promise<number> {
  const result = await db.query<{ seconds: number }>(
    `select coalesce(extract(epoch from now() - min(queued_at)), 0)::float8 as seconds
       from processing_jobs where ${OPEN_JOB}`,
  );
  return onlyRow(result).seconds;
}
