import { describe, expect, test } from '@jest/globals';
import { eventIdAt, timeOfEventId } from './event-id.ts';

describe('the id of an event', () => {
  test.each(['1970-01-01T00:00:00.000Z', '2026-11-24T05:10:11.123Z', '9999-12-31T23:59:59.999Z'])(
    'is a UUID of version 7 with the time %s',
    (text) => {
      const at = new Date(text);
      const id = eventIdAt(at);
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect([timeOfEventId(id), timeOfEventId(id.toUpperCase())]).toEqual([at, at]);
    },
  );

  test('is another one for each event, and the same for the same rest', () => {
    const at = new Date();
    const ids = new Set(Array.from({ length: 1_000 }, () => eventIdAt(at)));
    expect(ids.size).toBe(1_000);
    const rest = '5f3c7d0e-1b2a-4c3d-8e4f-0123456789ab';
    expect(eventIdAt(at, rest)).toBe(eventIdAt(at, rest));
    expect(eventIdAt(at, rest)).toMatch(/-7c3d-8e4f-0123456789ab$/);
  });

  test('keeps its form for a time that cannot be in it', () => {
    expect(timeOfEventId(eventIdAt(new Date(-1)))).toEqual(new Date(0));
    expect(timeOfEventId(eventIdAt(new Date(Number.NaN)))).toEqual(new Date(0));
  });

  test.each(['', 'no uuid', '5f3c7d0e-1b2a-4c3d-8e4f-0123456789ab', "' or 1=1"])(
    'is not %j',
    (text) => expect(timeOfEventId(text)).toBeUndefined(),
  );
});
