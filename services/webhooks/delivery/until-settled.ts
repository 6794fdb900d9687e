import { setTimeout as sleep } from 'node:timers/promises';
import { isOutage } from '../../platform/postgres.ts';

/** In all well below the lease that the writing needs. */
const PAUSES_MS = [50, 200, 1_000, 3_000, 5_000];

/**
 * Repeats a write over a passing trouble of the database: an attempt that was made and not written
 * down would be made again.
 *
 * @throws what the last try threw; another failure than an outage at once.
 */
export async function untilSettled<T>(write: () => Promise<T>): Promise<T> {
  for (const pause of PAUSES_MS) {
    try {
      return await write();
    } catch (error) {
      if (!isOutage(error)) throw error;
      await sleep(pause);
    }
  }
  return write();
}
