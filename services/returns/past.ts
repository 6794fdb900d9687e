import { invalidField } from '../platform/errors.ts';

/** Maximum time by which the clock of a caller may be ahead. Milliseconds. */
const SKEW_MS = 60_000;

/**
 * Checks that a time is not in the future. A time that is at most {@link SKEW_MS} ahead is replaced by the current
 * time.
 *
 * @throws DomainError INVALID_ARGUMENT when it is further ahead.
 */
export function pastTime(field: string, time: Date, now: Date = new Date()): Date {
  if (time.getTime() > now.getTime() + SKEW_MS) {
    throw invalidField(field, 'must not be in the future');
  }
  return time < now ? time : now;
}
