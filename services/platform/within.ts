import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits for `work`, but no longer than `ms` milliseconds.
 *
 * @returns whether the work finished in time. Work that is late goes on; its failure is then lost.
 * @throws what the work throws in time.
 */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const done = new AbortController();
  const limit = sleep(ms, false, { signal: done.signal }).catch(() => false);
  try {
    return await Promise.race([work.then(() => true), limit]);
  } finally {
    done.abort();
  }
}
