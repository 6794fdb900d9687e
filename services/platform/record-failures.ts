import type { ReceivedRecord } from './bus/event-bus.ts';

/** Pauses before the second and the third try of a record. Milliseconds. */
const PAUSES_MS: readonly number[] = [2_000, 8_000];
/** Number of keys that fail without a success in between, from which the cause counts as an outage. */
const OUTAGE_KEYS = 5;
/**
 * Maximum number of records and keys in memory. A record that is removed from memory starts again with its first try.
 */
const MAX_REMEMBERED = 10_000;

/**
 * What follows from a failure: another try after a pause (milliseconds), `poison` after the last try, or `outage` when
 * all records fail. With `outage` the failure does not count as a try.
 */
export type Consequence = { readonly pauseMs: number } | 'poison' | 'outage';

/**
 * Counts the failures of each record, and the keys that failed since the last success. The counts are only in memory.
 */
export interface RecordFailures {
  /** Number of tries after which a record is poison. */
  readonly attempts: number;
  hasFailed(record: ReceivedRecord): boolean;
  /** Notes a failure. Must be called for each record that failed alone, and not in a batch. */
  note(record: ReceivedRecord): Consequence;
  /** Notes that an event was handled, so not every record fails. */
  noteSuccess(): void;
  /** Forgets a record that was handled or stored as poison. */
  clear(record: ReceivedRecord): void;
}

/** Creates the counts. @param pausesMs pauses between the tries of a record (tests). Milliseconds. */
export function createRecordFailures(pausesMs = PAUSES_MS): RecordFailures {
  const failures = new Map<string, number>();
  const failingKeys = new Set<string>();

  return {
    attempts: pausesMs.length + 1,
    hasFailed: (record) => failures.has(idOf(record)),
    note(record) {
      if (failingKeys.size < MAX_REMEMBERED) failingKeys.add(`${record.topic}\n${record.key}`);
      if (failingKeys.size >= OUTAGE_KEYS) return 'outage';
      const id = idOf(record);
      const failed = (failures.get(id) ?? 0) + 1;
      if (failures.size >= MAX_REMEMBERED) failures.clear();
      failures.set(id, failed);
      const pauseMs = pausesMs[failed - 1];
      return pauseMs === undefined ? 'poison' : { pauseMs };
    },
    noteSuccess: () => failingKeys.clear(),
    clear: (record) => failures.delete(idOf(record)),
  };
}

function idOf({ topic, position }: ReceivedRecord): string {
  return `${topic}\n${position}`;
}
