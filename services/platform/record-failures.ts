import type { ReceivedRecord } from './bus/event-bus.ts';

/** Pauses before the second and the third try of a record. Milliseconds. */
const PAUSES_MS: readonly number[] = [2_000, 8_000];
/** So many keys that fail, one after another without a success between, share one cause. */
const OUTAGE_KEYS = 5;
/** Records and keys that are remembered. One that is forgotten starts from its first try. */
const MAX_REMEMBERED = 10_000;

/**
 * What follows from a failure: another try after a pause (milliseconds), `set-aside` after the last try, or
 * `outage`: whatever fails concerns all records, so it is not counted against this one.
 */
export type Consequence = { readonly pauseMs: number } | 'set-aside' | 'outage';

/** How often each record failed, and how many keys have failed in a row. Kept in memory only. */
export interface RecordFailures {
  /** Tries before a record is set aside. */
  readonly attempts: number;
  hasFailed(record: ReceivedRecord): boolean;
  /** Call it for each record that failed by itself, not with others. */
  note(record: ReceivedRecord): Consequence;
  /** The handler has dealt with an event, so not everything fails. */
  noteSuccess(): void;
  /** The record was handled or set aside. */
  forget(record: ReceivedRecord): void;
}

/** @param pausesMs between the tries of a record (tests). Milliseconds. */
export function createRecordFailures(pausesMs = PAUSES_MS): RecordFailures {
  const failures = new Map<string, number>();
  const failingKeys = new Set<string>();

  return {
    attempts: pausesMs.length + 1,
    hasFailed: (record) => failures.has(placeOf(record)),
    note(record) {
      if (failingKeys.size < MAX_REMEMBERED) failingKeys.add(`${record.topic}\n${record.key}`);
      if (failingKeys.size >= OUTAGE_KEYS) return 'outage';
      const place = placeOf(record);
      const failed = (failures.get(place) ?? 0) + 1;
      if (failures.size >= MAX_REMEMBERED) failures.clear();
      failures.set(place, failed);
      const pauseMs = pausesMs[failed - 1];
      return pauseMs === undefined ? 'set-aside' : { pauseMs };
    },
    noteSuccess: () => failingKeys.clear(),
    forget: (record) => failures.delete(placeOf(record)),
  };
}

function placeOf({ topic, position }: ReceivedRecord): string {
  return `${topic}\n${position}`;
}
