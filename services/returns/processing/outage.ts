import { setTimeout as sleep } from 'node:timers/promises';
import { isUnavailable } from '../../platform/errors.ts';
import { isOutage } from '../../platform/outage.ts';
import { BooksUnavailable } from '../commerce/provider.ts';
import { LeaseLost } from './jobs.ts';

/** Between two tries to reach our own database. Milliseconds. */
const EVERY_MS = 500;

/**
 * Whether a run ended because a part of our own did not answer: our database, or another service. That
 * says nothing about the commerce provider, so it counts as no attempt.
 */
export function isOurOutage(error: unknown): boolean {
  return error instanceof BooksUnavailable || isOutage(error) || isUnavailable(error);
}

/**
 * Runs `work`, which writes about a held job, until our database takes it: a lease that runs out counts
 * against the job. Gives up when the worker stops.
 *
 * @throws LeaseLost; what else the work throws when it is no outage, or when `signal` says stop.
 */
export async function throughOutage(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (error instanceof LeaseLost || !isOutage(error) || signal.aborted) throw error;
    }
    await sleep(EVERY_MS, undefined, { signal }).catch(() => {});
  }
}
