import { invalidField } from '../platform/errors.ts';

/** How far another machine's clock may be ahead of ours. Milliseconds. */
const SKEW_MS = 60_000;

/**
 * Checks a time that must be in the past. A time that is ahead by less than {@link SKEW_MS} becomes now.
 *
 * @throws DomainError INVALID_ARGUMENT when it is further ahead.
 */
export function pastTime(field: string, time: Date, now: Date = new Date()): Date {
  if (time.getTime() > now.getTime() + SKEW_MS) {
    throw invalidField(field, 'must not lie in the future');
  }
  return time < now ? time : now;
}
