import { describe, expect, test } from '@jest/globals';
import type { ReceivedRecord } from './bus/event-bus.ts';
import { createRecordFailures } from './record-failures.ts';

function recordOf(key: string, position = key): ReceivedRecord {
  return { topic: 't', key, position, value: new Uint8Array(), headers: {} };
}

describe('failures of records', () => {
  test('one record is tried three times, after growing pauses', () => {
    const failures = createRecordFailures();
    const record = recordOf('a');
    expect(failures.attempts).toBe(3);
    expect(failures.note(record)).toEqual({ pauseMs: 2_000 });
    expect(failures.note(record)).toEqual({ pauseMs: 8_000 });
    expect(failures.note(record)).toBe('poison');
  });

  test('many keys in a row are an outage, which does not count as a try', () => {
    const failures = createRecordFailures([1]);
    for (const key of ['a', 'b', 'c', 'd'])
      expect(failures.note(recordOf(key))).toEqual({ pauseMs: 1 });
    expect(failures.note(recordOf('e'))).toBe('outage');
    for (let n = 0; n < 10; n += 1) expect(failures.note(recordOf('a'))).toBe('outage');
    failures.noteSuccess();
    // The second counted failure.
    expect(failures.note(recordOf('a'))).toBe('poison');
  });

  test('many records of one key are not an outage', () => {
    const failures = createRecordFailures([1]);
    for (let n = 0; n < 10; n += 1) {
      expect(failures.note(recordOf('a', `0/${n}`))).toEqual({ pauseMs: 1 });
    }
  });

  test('a success between failing keys ends the row', () => {
    const failures = createRecordFailures([1]);
    for (let n = 0; n < 20; n += 1) {
      expect(failures.note(recordOf(String(n)))).toEqual({ pauseMs: 1 });
      failures.noteSuccess();
    }
  });
});
