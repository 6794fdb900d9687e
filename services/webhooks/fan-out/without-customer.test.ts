import { describe, expect, test } from '@jest/globals';
import { sampleEvent } from '../../contract/sample-event.ts';
import { delivers, payloadOf } from '../../contract/topics/topics.ts';
import { TOPICS, TRIGGERS } from '../../contract/vocabulary.ts';
import { withoutCustomer } from './shape.ts';

const pairs = TOPICS.flatMap((topic) =>
  TRIGGERS.filter((trigger) => delivers(topic, trigger)).map(
    (trigger) => [topic, trigger] as const,
  ),
);

function payload(topic: string, trigger: (typeof TRIGGERS)[number]): object {
  const event = sampleEvent(trigger, 7n);
  return payloadOf(topic, event, event.snapshot) ?? {};
}

/** All data about the shopper in the sample. */
const SHOPPER = /shopper@example\.com|"Sam(?: Sample)?"|"Sample"|\/uploads\//;

describe('a payload after its customer was redacted', () => {
  test.each(pairs)(
    'of %s on %s has no data about the shopper, and keeps every key',
    (topic, trigger) => {
      const before = payload(topic, trigger);
      const after = withoutCustomer(topic, before);
      expect(SHOPPER.exec(JSON.stringify(after))?.[0]).toBeUndefined();
      expect(Object.keys(after)).toEqual(Object.keys(before));
    },
  );

  test('of a label request still has the destination of the parcel', () => {
    const { addresses } = withoutCustomer(
      'label.request',
      payload('label.request', 'label.request.issued'),
    ) as {
      addresses: object;
    };
    expect(addresses).toEqual({
      origin: null,
      destination: expect.objectContaining({ name: 'Sample warehouse' }),
    });
  });

  test('lost some data, if its topic has data about the shopper', () => {
    const telling = pairs.filter(([topic, trigger]) =>
      SHOPPER.test(JSON.stringify(payload(topic, trigger))),
    );
    expect([...new Set(telling.map(([topic]) => topic))]).toEqual([
      'return',
      'label.request',
      'giftcard',
    ]);
  });
});
