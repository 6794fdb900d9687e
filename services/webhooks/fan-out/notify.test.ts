import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { runWebhooks } from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { createShardHolder } from '../../platform/shards.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS, queueKeyOf } from '../delivery/queue/queue-ref.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

test('the replica that owns an endpoint is notified of deliveries that another replica has written', async () => {
  const other = createShardHolder({
    pool: db.pool,
    owner: randomUUID(),
    name: DELIVERY_LEASES,
    count: DELIVERY_SHARDS,
    // A long lease, so that a slow machine keeps the shards.
    leaseMs: 60_000,
  });
  // It takes all shards, and hands none over.
  await other.rebalance();
  stops.push(() => other.release());
  const webhooks = await runWebhooks({ db });
  stops.push(() => webhooks.stop());
  const shopId = newShop();
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: 'http://127.0.0.1:1/' });
  const listener = new pg.Client({ connectionString: db.url });
  await listener.connect();
  stops.push(() => listener.end());
  const notified: string[] = [];
  listener.on('notification', ({ payload = '' }) => notified.push(...payload.split(',')));
  await listener.query('listen webhooks_due_webhooks');
  await webhooks.publish(sampleEvent('return.closed', shopId));
  await until(() => notified.includes(queueKeyOf({ shopId, subscriptionId })));
  expect(other.owned()).toHaveLength(DELIVERY_SHARDS);
});
