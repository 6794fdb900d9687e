import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { newShop } from '../../../test/kit/services/running-service.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { withSnapshots } from './snapshots.ts';

let webhooks: WebhooksUnderTest;

beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

/** Five of these exceed the limit of memory. */
const LARGE = 'x'.repeat(2 * 1024 * 1024);

describe('snapshots from returns', () => {
  test('are in memory 8 MiB at a time, all events in order', async () => {
    const shopId = newShop();
    await webhooks.subscribe({ shopId, url: 'http://127.0.0.1:9/hook' });
    const events = Array.from({ length: 10 }, (_, n) => {
      const { snapshot, ...event } = sampleEvent('return.closed', shopId);
      return n === 3 ? { ...event, snapshot } : { ...event, snapshotOmitted: true };
    });
    const { snapshot } = sampleEvent('return.closed', shopId);
    if (!snapshot) throw new Error('sample events carry a snapshot');
    const read = async () => ({ ...snapshot, statusPageUrl: LARGE });
    const parts: string[][] = [];
    for await (const part of withSnapshots(webhooks.db.pool, events, read)) {
      expect(part.every((event) => event.snapshot && !event.snapshotOmitted)).toBe(true);
      parts.push(part.map((event) => event.eventId));
    }
    expect(parts.map((part) => part.length)).toEqual([5, 4, 1]);
    expect(parts.flat()).toEqual(events.map((event) => event.eventId));
  });
});
