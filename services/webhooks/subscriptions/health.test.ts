import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { countStatements } from '../../../test/kit/postgres/counted-statements.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { createLog, type Log } from '../../../test/kit/webhooks/log.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { createPool } from '../../platform/postgres/postgres.ts';
import { readWithHealth } from './health.ts';
import { setPayloadVersion } from './payload-version.ts';

const today = new Date('2026-11-21T00:00:00Z');
const HOUR_MS = 3_600_000;
const ago = (hours: number) => new Date(Date.now() - hours * HOUR_MS);

describe('the health of a subscription', () => {
  let log: Log;
  beforeAll(async () => {
    log = await createLog();
  });
  afterAll(() => log?.stop());

  const healthOf = async (shopId: bigint, subscriptionId: bigint) => {
    const [found] = await readWithHealth(log.pool, { shopId, subscriptionId, today });
    if (!found) throw new Error('no subscription');
    return found;
  };
  /** Records one attempt of each waiting delivery of a subscription. */
  const attempt = (shopId: bigint, id: bigint) =>
    log.pool.query(
      `with tried as (
         update queue set attempts = attempts + 1 where shop_id = $1 and subscription_id = $2 returning id, attempts)
       insert into attempts (shop_id, delivery_id, number, started_at, duration_ms, status, error, url,
                             request_headers, response_excerpt)
       select $1, id, attempts, now(), 1, 500, '', '', '', '' from tried`,
      [shopId, id],
    );

  test('counts the deliveries of a day that ended or were attempted, of this subscription', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    const other = await log.subscribe(shopId);
    const waiting = ago(3);
    await log.add(shopId, [
      { subscriptionId, at: ago(1), ended: 'delivered' },
      { subscriptionId, at: ago(2), ended: 'delivered' },
      { subscriptionId, at: ago(2), ended: 'exhausted' },
      { subscriptionId, at: ago(25), ended: 'exhausted' },
      { subscriptionId, at: ago(1), ended: 'dropped' },
      { subscriptionId, at: waiting },
      { subscriptionId: other, at: ago(1), ended: 'exhausted' },
    ]);
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({
      counted: 3,
      delivered: 2,
      oldestWaitingAt: waiting,
      pausedSince: null,
    });
    await attempt(shopId, subscriptionId);
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ counted: 4, delivered: 2 });
  });

  test('counts waiting deliveries without an attempt while the subscription fails', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, at: ago(1) }]);
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ counted: 0 });
    await log.pool.query('update subscriptions set failures = 1 where shop_id = $1', [shopId]);
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ counted: 1, delivered: 0 });
  });

  test('begins again when the address changes: what was tried before does not count', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId, { url: 'https://a.example.com/' });
    await log.add(shopId, [
      { subscriptionId, at: ago(3), ended: 'delivered' },
      { subscriptionId, at: ago(2), ended: 'exhausted' },
      { subscriptionId, at: ago(1) },
    ]);
    await attempt(shopId, subscriptionId);
    const before = { counted: 3, delivered: 1 };
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ ...before, countedSince: null });
    await log.change(shopId, subscriptionId, {
      url: 'https://a.example.com/',
      trigger: 'return.created',
    });
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ ...before, countedSince: null });
    await log.change(shopId, subscriptionId, { url: 'https://b.example.com/' });
    const changed = await healthOf(shopId, subscriptionId);
    expect(changed).toMatchObject({ counted: 0, delivered: 0, countedSince: changed.updatedAt });
    await attempt(shopId, subscriptionId);
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ counted: 1, delivered: 0 });
    await log.deliver(shopId, subscriptionId);
    await log.add(shopId, [{ subscriptionId, at: ago(1), ended: 'exhausted' }]);
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ counted: 2, delivered: 1 });
  });

  test('begins again when a user activates it, and not when the change is older than a day', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, at: ago(2), ended: 'exhausted' }]);
    await log.change(shopId, subscriptionId, { status: 'inactive' });
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ counted: 1 });
    await log.change(shopId, subscriptionId, { status: 'active' });
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ counted: 0 });
    await log.pool.query('update subscriptions set health_since = $2 where shop_id = $1', [
      shopId,
      ago(25),
    ]);
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({
      counted: 1,
      countedSince: null,
    });
  });

  test('counts the newest 200', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    const of = (ended: 'delivered' | 'exhausted', hours: number, count: number) =>
      Array.from({ length: count }, () => ({ subscriptionId, ended, at: ago(hours) }));
    await log.add(shopId, [...of('exhausted', 2, 50), ...of('delivered', 1, 180)]);
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ counted: 200, delivered: 180 });
  });

  test('of a new subscription has nothing to count, and the newest version of payloads', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    const health = { counted: 0, delivered: 0, oldestWaitingAt: null, payloadVersion: '2026-10' };
    expect(await healthOf(shopId, subscriptionId)).toMatchObject(health);
    await setPayloadVersion(log.pool, shopId, { version: '2026-07', today });
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ payloadVersion: '2026-07' });
  });

  test('says since when the circuit of the address is open', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    const since = ago(1);
    await log.pool.query(
      'update endpoints set circuit_opened_at = $2, held_until = $2 where shop_id = $1',
      [shopId, since],
    );
    expect(await healthOf(shopId, subscriptionId)).toMatchObject({ pausedSince: since });
  });

  test('of all subscriptions of a shop is one statement', async () => {
    const shopId = log.newShop();
    const ids = [await log.subscribe(shopId), await log.subscribe(shopId)];
    await log.unsubscribe(shopId, await log.subscribe(shopId));
    const pool = createPool(log.db.url, { max: 1 });
    const sent = countStatements(pool);
    const all = await readWithHealth(pool, { shopId, today });
    await pool.end();
    expect(all.map(({ id }) => id)).toEqual(ids);
    expect(sent.statements).toHaveLength(1);
    expect(await readWithHealth(log.pool, { shopId: log.newShop(), today })).toEqual([]);
  });
});

describe('the RPCs', () => {
  let webhooks: WebhooksUnderTest;
  beforeAll(async () => {
    webhooks = await runWebhooks({ today: () => today });
  });
  afterAll(() => webhooks?.stop());

  test('return the health of one subscription, and of all when requested', async () => {
    const shopId = newShop();
    const url = 'https://partner.example.com/hooks';
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
    const request = { shopId, actor, subscriptionId };
    const { subscription } = await webhooks.client.getSubscription(request);
    expect(subscription).toMatchObject({
      id: subscriptionId,
      url,
      delivers: true,
      health: { counted: 0, payloadVersion: '2026-10' },
    });
    const list = async (o: { includeHealth: boolean }) =>
      (await webhooks.client.listSubscriptions({ shopId, actor, ...o })).subscriptions;
    expect(await list({ includeHealth: true })).toEqual([subscription]);
    expect((await list({ includeHealth: false }))[0]?.health).toBeUndefined();
  });
});
