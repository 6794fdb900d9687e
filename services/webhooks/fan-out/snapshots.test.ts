import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { newShop } from '../../../test/kit/services/running-service.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { inPartsWithSnapshots, type ReadSnapshot } from './snapshots.ts';

let webhooks: WebhooksUnderTest;

beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

/** Five of these exceed the size of a part. */
const LARGE = 'x'.repeat(2 * 1024 * 1024);

async function subscribed(): Promise<bigint> {
  const shopId = newShop();
  await webhooks.subscribe({ shopId, url: 'http://127.0.0.1:9/hook' });
  return shopId;
}

/** Events without their snapshots. */
function omitted(shopId: bigint, count: number) {
  return Array.from({ length: count }, () => {
    const { snapshot: _, ...event } = sampleEvent('return.closed', shopId);
    return { ...event, snapshotOmitted: true };
  });
}

const readLarge: ReadSnapshot = async ({ shopId }) => {
  const { snapshot } = sampleEvent('return.closed', shopId);
  if (!snapshot) throw new Error('sample events carry a snapshot');
  return { ...snapshot, statusPageUrl: LARGE };
};

describe('snapshots from returns', () => {
  test('are read one at a time, in parts of 8 MiB, all events in order', async () => {
    const shopId = await subscribed();
    const { snapshot } = sampleEvent('return.closed', shopId);
    const events = omitted(shopId, 10).map((event, n) =>
      n === 3 && snapshot ? { ...event, snapshot, snapshotOmitted: false } : event,
    );
    let [reading, mostReading] = [0, 0];
    const inParts = inPartsWithSnapshots(webhooks.db.pool, (key) => {
      reading += 1;
      mostReading = Math.max(mostReading, reading);
      return readLarge(key).finally(() => {
        reading -= 1;
      });
    });
    const parts: string[][] = [];
    for await (const part of inParts(events)) {
      expect(part.every((event) => event.snapshot && !event.snapshotOmitted)).toBe(true);
      expect(reading).toBe(0);
      parts.push(part.map((event) => event.eventId));
    }
    expect(parts.map((part) => part.length)).toEqual([5, 4, 1]);
    expect(parts.flat()).toEqual(events.map((event) => event.eventId));
    expect(mostReading).toBe(1);
  });

  test('are in memory for one batch at a time, also after a batch has failed', async () => {
    const shopId = await subscribed();
    const inParts = inPartsWithSnapshots(webhooks.db.pool, readLarge);
    let [open, mostOpen] = [0, 0];
    const handle = async (fails: boolean) => {
      for await (const _part of inParts(omitted(shopId, 6))) {
        open += 1;
        mostOpen = Math.max(mostOpen, open);
        await webhooks.db.pool.query('select pg_sleep(0.01)');
        open -= 1;
        if (fails) throw new Error('not handled');
      }
    };
    const handled = await Promise.allSettled([true, false, false].map(handle));
    expect(handled.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
    expect(mostOpen).toBe(1);
  });

  test('delay no batch that needs none', async () => {
    const shopId = await subscribed();
    const inParts = inPartsWithSnapshots(webhooks.db.pool, readLarge);
    const large = inParts(omitted(shopId, 6));
    await large.next();
    const other = [sampleEvent('return.closed', shopId), ...omitted(newShop(), 2)];
    const parts: unknown[] = [];
    for await (const part of inParts(other)) parts.push(part);
    expect(parts).toEqual([other]);
    await large.return(undefined);
  });
});
