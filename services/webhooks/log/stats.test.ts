import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createLog } from '../../../test/kit/webhooks/log.ts';
import { webhookIdOf } from './delivery.ts';
import { deliveriesOfEvent } from './get.ts';
import { countByHour } from './stats.ts';

let log: Awaited<ReturnType<typeof createLog>>;
beforeAll(async () => {
  log = await createLog();
});
afterAll(() => log.db.drop());

const NOW = new Date('2026-11-20T10:30:00Z');
const at = (time: string): Date => new Date(`2026-11-20T${time}Z`);

describe('deliveries by hour', () => {
  test('are counted by their result, without test events and those of other shops', async () => {
    const [shopId, other] = [log.newShop(), log.newShop()];
    const [first, second] = [await log.subscribe(shopId), await log.subscribe(shopId)];
    const foreign = await log.subscribe(other);
    await log.add(other, [{ subscriptionId: foreign, at: at('10:00:00') }]);
    const ids = await log.add(shopId, [
      { subscriptionId: second, at: at('09:20:00') },
      { subscriptionId: first, at: at('08:59:59.999'), ended: 'delivered' },
      { subscriptionId: first, at: at('09:00:00'), ended: 'delivered' },
      { subscriptionId: first, at: at('09:59:59.999'), ended: 'exhausted' },
      { subscriptionId: second, at: at('10:00:00'), ended: 'expired' },
      { subscriptionId: second, at: at('10:10:00') },
      { subscriptionId: second, at: at('10:11:00'), ended: 'dropped' },
      { subscriptionId: second, at: at('10:12:00'), ended: 'delivered', isTest: true },
    ]);
    await log.pool.query(
      'update queue set attempts = 1, round_attempts = 1 where shop_id = $1 and id = $2',
      [shopId, ids[0]],
    );
    const counted = await countByHour(log.pool, {
      shopId,
      subscriptionId: null,
      hours: 2,
      now: NOW,
    });
    expect(counted).toEqual([
      { startsAt: at('09:00:00'), delivered: 1, failed: 1, waiting: 1, retrying: 1, isMore: false },
      { startsAt: at('10:00:00'), delivered: 0, failed: 1, waiting: 1, retrying: 0, isMore: false },
    ]);
    const ofFirst = await countByHour(log.pool, {
      shopId,
      subscriptionId: first,
      hours: 3,
      now: NOW,
    });
    expect(ofFirst.map(({ delivered, failed }) => [delivered, failed])).toEqual([
      [1, 0],
      [1, 1],
      [0, 0],
    ]);
  });
});

describe('deliveries of an event', () => {
  test('are found by its id, in the own shop only', async () => {
    const [shopId, other] = [log.newShop(), log.newShop()];
    const [first, second] = [await log.subscribe(shopId), await log.subscribe(shopId)];
    const event = log.eventOf(shopId, { at: at('10:00:00') });
    const ids = await log.add(shopId, [
      { subscriptionId: first, event },
      { subscriptionId: second, event },
      { subscriptionId: first, at: at('10:00:00') },
    ]);
    const { eventId } = event;
    const found = await deliveriesOfEvent(log.pool, { shopId, eventId: eventId.toUpperCase() });
    expect(found.map(({ row }) => webhookIdOf(row.id))).toEqual(
      ids.slice(0, 2).toSorted().map(webhookIdOf),
    );
    expect(await deliveriesOfEvent(log.pool, { shopId: other, eventId })).toEqual([]);
    expect(await deliveriesOfEvent(log.pool, { shopId, eventId: 'no uuid' })).toEqual([]);
  });
});
