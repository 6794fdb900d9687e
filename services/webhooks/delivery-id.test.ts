import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { TOPICS } from '../contract/vocabulary.ts';
import { dayOf, deliveryIdOf, payloadIdOf, rangeOfEvent } from './delivery-id.ts';

const moments = fc.date({
  min: new Date(0),
  max: new Date('2200-01-01T00:00:00Z'),
  noInvalidDate: true,
});
const events = fc.record({ eventId: fc.uuid(), occurredAt: moments });
const subscriptions = fc.integer({ min: 1, max: 999_999_999 }).map(BigInt);

describe('the id of a delivery', () => {
  test('is a UUID of version 8, always the same', () => {
    fc.assert(
      fc.property(events, subscriptions, (event, subscription) => {
        const id = deliveryIdOf(event, subscription);
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        const again = { ...event, eventId: event.eventId.toUpperCase() };
        expect(deliveryIdOf(again, subscription)).toBe(id);
      }),
    );
  });

  test('differs by event and by subscription', () => {
    fc.assert(
      fc.property(events, events, subscriptions, subscriptions, (a, b, s, t) => {
        fc.pre(a.eventId !== b.eventId && s !== t);
        const ids = [deliveryIdOf(a, s), deliveryIdOf(a, t), deliveryIdOf(b, s)];
        expect(new Set(ids).size).toBe(3);
      }),
    );
  });

  test('sorts by the time of the event, and contains its day', () => {
    fc.assert(
      fc.property(events, events, subscriptions, (a, b, s) => {
        fc.pre(a.occurredAt < b.occurredAt);
        expect(deliveryIdOf(a, s) < deliveryIdOf(b, s)).toBe(true);
        expect(dayOf(deliveryIdOf(a, s)).toISOString()).toBe(
          `${a.occurredAt.toISOString().slice(0, 10)}T00:00:00.000Z`,
        );
      }),
    );
  });

  test('is in one range with the other ids of its event, and with its bodies', () => {
    fc.assert(
      fc.property(events, events, subscriptions, subscriptions, (a, b, s, t) => {
        fc.pre(a.eventId !== b.eventId);
        const { first, last } = rangeOfEvent(deliveryIdOf(a, s));
        const inside = (id: string) => id >= first && id <= last;
        expect(inside(deliveryIdOf(a, t))).toBe(true);
        expect(inside(payloadIdOf(a, 'return', '2026-10'))).toBe(true);
        expect(rangeOfEvent(payloadIdOf(a, 'label', '2026-07'))).toEqual({ first, last });
        expect(inside(deliveryIdOf({ ...b, occurredAt: a.occurredAt }, s))).toBe(false);
      }),
    );
  });

  test('rejects a subscription id that is too large, and accepts any time', () => {
    const event = { eventId: 'x', occurredAt: new Date(Number.NaN) };
    expect(() => deliveryIdOf(event, 2n ** 30n)).toThrow(RangeError);
    expect(dayOf(deliveryIdOf(event, 1n))).toEqual(new Date(0));
    const before = { eventId: 'x', occurredAt: new Date(-1) };
    expect(dayOf(deliveryIdOf(before, 1n))).toEqual(new Date(0));
  });
});

test('bodies of all topics in all versions of a century have different ids', () => {
  const event = { eventId: '00000000-0000-4000-8000-000000000000', occurredAt: new Date() };
  const ids = TOPICS.flatMap((topic) =>
    Array.from({ length: 1_200 }, (_, n) => {
      const month = String((n % 12) + 1).padStart(2, '0');
      return payloadIdOf(event, topic, `${2026 + Math.floor(n / 12)}-${month}`);
    }),
  );
  expect(new Set(ids).size).toBe(ids.length);
});
