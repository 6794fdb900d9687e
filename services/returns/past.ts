import { invalidField } from '../platform/errors.ts';

/** Maximum time by which the clock of a caller may be ahead. Milliseconds. */
const SKEW_MS = 60_000;

/** Earlier times are zero values of programs: the year 1 of Go, and 1970 of an empty timestamp. */
const FIRST = new Date('2000-01-01T00:00:00Z');

/**
 * Checks that a time is not in the future, and not a zero value. A time that is at most {@link SKEW_MS} ahead is replaced by the current
 * time.
 *
 * @throws DomainError INVALID_ARGUMENT when it is further ahead, or before the year 2000.
 */
export function pastTime(field: string, time: Date, now: Date = new Date()): Date {
  if (time.getTime() > now.getTime() + SKEW_MS) {
    throw invalidField(field, 'must not be in the future');
  }
  if (time < FIRST) {
    throw invalidField(field, 'must not be before the year 2000: leave it out if it is unknown');
  }
  return time < now ? time : now;
}
