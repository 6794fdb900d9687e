import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newShop } from '../../../test/support/running-service.ts';
import {
  keyring,
  type Receiver,
  runWebhooks,
  startReceiver,
  until,
  type WebhooksUnderTest,
} from '../../../test/support/webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { newSecret } from '../sender/signature.ts';
import { contextOf } from '../subscriptions/secrets.ts';

let webhooks: WebhooksUnderTest;
let receiver: Receiver;

beforeAll(async () => {
  webhooks = await runWebhooks({ concurrency: 16 });
  receiver = await startReceiver();
});
afterAll(async () => {
  // What hangs ends with it.
  await receiver.stop();
  await webhooks.stop();
});

/** More endpoints than a process looks after at once, each with a subscription. */
async function crowdOf(shopId: bigint, count: number): Promise<void> {
  const { pool } = webhooks.db;
  await pool.query(
    `with e as (
       insert into endpoints (shop_id, url, url_sha256)
       select $1, $2::text || n, sha256(n::text::bytea) from generate_series(1, $3::integer) n returning id
     )
     insert into subscriptions (shop_id, topic, trigger, endpoint_id, status)
     select $1, 'return', 'return.closed', e.id, 'active' from e`,
    [shopId, `${receiver.url}/hanging`, count],
  );
  const { rows } = await pool.query<{ id: bigint }>(
    `insert into lanes (shop_id, subscription_id, endpoint_id, topic, trigger, shard, is_open)
     select shop_id, id, endpoint_id, topic, trigger, endpoint_id % 32, true
       from subscriptions where shop_id = $1
     returning subscription_id as id`,
    [shopId],
  );
  const secrets = rows.map(({ id }) =>
    keyring.seal(newSecret(), contextOf({ shopId, subscriptionId: id })),
  );
  await pool.query(
    `insert into secrets (shop_id, subscription_id, key_id, sealed)
     select $1, * from unnest($2::bigint[], $3::text[], $4::bytea[])`,
    [
      shopId,
      rows.map(({ id }) => id),
      secrets.map((one) => one.keyId),
      secrets.map((one) => one.sealed),
    ],
  );
}

test('more hanging endpoints than a process looks after hold up nobody else', async () => {
  const [crowd, other] = [newShop(), newShop()];
  receiver.answer = (response, { path }) => {
    if (!path.includes('hanging')) response.writeHead(200).end();
  };
  await crowdOf(crowd, 2_200);
  await webhooks.subscribe({ shopId: other, url: `${receiver.url}/good` });
  const isGood = (one: { path: string }) => one.path.includes('good');
  const good = () => receiver.received.filter(isGood).length;
  for (const n of [1, 2, 3, 4]) {
    await webhooks.publish(sampleEvent('return.closed', other));
    await until(() => good() === n);
  }
  await webhooks.publish(sampleEvent('return.closed', crowd), sampleEvent('return.closed', crowd));
  await until(() => receiver.received.length >= 4 + 8);
  const before = performance.now();
  await webhooks.publish(sampleEvent('return.closed', other));
  await until(() => good() === 5);
  expect(performance.now() - before).toBeLessThan(5_000);
}, 120_000);
