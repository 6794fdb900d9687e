import { invalidField } from '../platform/errors.ts';

/** How far another machine's clock may be ahead of ours. Milliseconds. */
const SKEW_MS = 60_000;

/**
 * A time that a caller says was in the past. One that lies ahead by no more than clocks differ counts
 * as now.
 *
 * @throws DomainError INVALID_ARGUMENT when it lies further ahead.
 */
export function pastTime(field: string, time: Date, now: Date = new Date()): Date {
  if (time.getTime() > now.getTime() + SKEW_MS) {
    throw invalidField(field, 'must not lie in the future');
  }
  return time < now ? time : now;
}
