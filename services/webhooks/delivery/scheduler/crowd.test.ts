import { afterEach, expect, test } from '@jest/globals';
import pg from 'pg';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  keyring,
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { newSecret } from '../../../platform/outbound/signature.ts';
import { SECRETS } from '../../subscriptions/secrets.ts';

let webhooks: WebhooksUnderTest;
let receiver: Receiver;

async function start(concurrency: number): Promise<void> {
  // Attempts that hang outlast the test on a slow machine, too.
  webhooks = await runWebhooks({ WEBHOOK_CONCURRENCY: concurrency, attemptMs: 300_000 });
  receiver = await startReceiver();
}
afterEach(async () => {
  // Ends hanging attempts with the test.
  await receiver.stop();
  await webhooks.stop();
});

/** Endpoints with a subscription each. */
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
    `insert into subscription_queues (shop_id, subscription_id, endpoint_id, topic, trigger, shard, is_open)
     select shop_id, id, endpoint_id, topic, trigger, endpoint_id % 32, true
       from subscriptions where shop_id = $1
     returning subscription_id as id`,
    [shopId],
  );
  const secrets = rows.map(({ id }) =>
    keyring.encrypt(newSecret(), SECRETS.contextOf({ shopId, subscriptionId: id })),
  );
  await pool.query(
    `insert into secrets (shop_id, subscription_id, key_id, sealed)
     select $1, * from unnest($2::bigint[], $3::text[], $4::bytea[])`,
    [
      shopId,
      rows.map(({ id }) => id),
      secrets.map((one) => one.keyId),
      secrets.map((one) => one.encrypted),
    ],
  );
}

/** Changes the time at which the shop's deliveries were queued. */
async function inflate(shopId: bigint, bytes: number): Promise<void> {
  const migrator = new pg.Client({ connectionString: webhooks.db.migratorUrl });
  await migrator.connect();
  await migrator.query(
    `create function webhooks.inflate() returns trigger language plpgsql
         as 'begin new.bytes := ${bytes}; return new; end';
     create trigger inflate before insert on webhooks.queue for each row
       when (new.shop_id = ${shopId}) execute function webhooks.inflate()`,
  );
  await migrator.end();
}

/**
 * Sends to a known and to a new endpoint while a crowd hangs. Returns how many attempts of the crowd had ended by then.
 */
async function sendBeside(crowd: bigint, count: number): Promise<number> {
  let ended = 0;
  const [known, fresh] = [newShop(), newShop()];
  receiver.answer = (response, { path }) => {
    if (path.includes('hanging')) response.once('close', () => (ended += 1));
    else response.writeHead(200).end();
  };
  await crowdOf(crowd, count);
  await webhooks.subscribe({ shopId: known, url: `${receiver.url}/known` });
  await webhooks.subscribe({ shopId: fresh, url: `${receiver.url}/fresh` });
  const arrived = (name: string) =>
    receiver.received.filter(({ path }) => path.endsWith(name)).length;
  for (const n of [1, 2, 3, 4]) {
    await webhooks.publish(sampleEvent('return.closed', known));
    await until(() => arrived('known') === n);
  }
  await webhooks.publish(sampleEvent('return.closed', crowd), sampleEvent('return.closed', crowd));
  await until(() => receiver.received.length >= 4 + 8);
  // Until the process knows that they hang.
  const hangingSince = performance.now();
  await until(() => performance.now() - hangingSince > 1_500);
  await webhooks.publish(sampleEvent('return.closed', known), sampleEvent('return.closed', fresh));
  await until(() => arrived('known') === 5 && arrived('fresh') === 1);
  return ended;
}

test('more hanging endpoints than active queues delay no other endpoint, known or new', async () => {
  await start(16);
  expect(await sendBeside(newShop(), 2_200)).toBe(0);
}, 120_000);

test('large bodies that hang delay no other endpoint, known or new', async () => {
  await start(128);
  const crowd = newShop();
  await inflate(crowd, 1_300_000);
  expect(await sendBeside(crowd, 200)).toBe(0);
}, 120_000);
