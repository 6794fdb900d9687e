import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { EventBus, Subscription } from '../../services/platform/bus/event-bus.ts';
import type { Telemetry } from '../../services/platform/telemetry.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { type MailServer, startMailServer } from '../../test/kit/mail/mail-server.ts';
import { recordOf, webhookEvents } from '../../test/kit/mail/webhook-events.ts';
import { silentLogger, testTelemetry } from '../../test/kit/services/telemetry.ts';
import {
  poolOf,
  type SimulatedProcess,
  simulateProcess,
  WHENS,
} from '../../test/kit/simulated-process.ts';
import { mailAdder } from './add-mails.ts';
import { startMailConsumer } from './consume.ts';
import { sendDueMails } from './sender.ts';
import { sendMail } from './smtp.ts';

let db: TestDatabase;
let server: MailServer;
let telemetry: Telemetry;
beforeAll(async () => {
  [db, server, telemetry] = await Promise.all([
    createTestDatabase('gateway'),
    startMailServer(),
    testTelemetry(),
  ]);
});
afterAll(async () => {
  await Promise.all([server.stop(), telemetry.stop(), db.drop()]);
});

const logger = silentLogger();

/** A new shop with one owner. */
async function newShop(): Promise<{ shopId: bigint; email: string }> {
  const { rows } = await db.pool.query<{ shopId: bigint; email: string }>(
    `with owner as (insert into users (email) values (gen_random_uuid() || '@example.com') returning id, email),
          shop as (insert into shops (name, currency, founder_id) select 'Shop', 'GBP', id from owner returning id),
          member as (insert into memberships (shop_id, user_id, role) select shop.id, owner.id, 'owner' from shop, owner)
     select shop.id as "shopId", owner.email from shop, owner`,
  );
  const [row] = rows;
  if (!row) throw new Error('no shop was made');
  return row;
}

/** A gateway's process: consumes the record if the bus still has it, then sends the mails that are due. */
async function runOnce(
  simulated: SimulatedProcess,
  event: ReturnType<typeof webhookEvents.failing>,
) {
  const pool = poolOf(simulated, db.pool);
  let handle: Subscription['handle'] | undefined;
  const bus: EventBus = {
    publish: async () => {},
    subscribe: async (s) => {
      handle = s.handle;
      return { stop: async () => {} };
    },
    hasCaughtUp: async () => true,
    health: async () => {},
    close: async () => {},
  };
  const add = mailAdder({ gatherMs: 0, metrics: { suppressed() {} }, wake() {} });
  const consumer = await startMailConsumer({ bus, pool, logger, telemetry, retentionDays: 7, add });
  try {
    await handle?.([{ ...recordOf(event), topic: 'rms.webhooks.events.v1', position: '0:1' }]);
    await sendDueMails({
      pool,
      logger,
      metrics: { ended() {} },
      publicUrl: 'https://api.example.com',
      hasPortal: true,
      send: (message, handOver) => simulated.step(() => sendMail(smtp(), message, handOver)),
    });
  } finally {
    await consumer.stop();
  }
}

const smtp = () => ({
  host: '127.0.0.1',
  port: server.port,
  isSecure: false,
  requiresTls: false,
  caFile: undefined,
  user: undefined,
  password: undefined,
  passwordFile: undefined,
  from: 'returns@example.com',
  timeoutMs: 30_000,
});

test('killed at any await, a gateway consumes and sends a mail at most once, and loses none silently', async () => {
  const counts = new Map<string, number>();
  for (let at = 1; ; at += 1) {
    let isPastEnd = false;
    for (const when of WHENS) {
      const { shopId, email } = await newShop();
      const event = webhookEvents.failing({ shopId });
      const killed = simulateProcess({ at, when });
      await runOnce(killed, event).catch(() => {});
      await killed.finished();
      isPastEnd = !killed.isKilled;
      // Its lease expires.
      await db.pool.query('update mails set due_at = now() where shop_id = $1 and ended is null', [
        shopId,
      ]);
      await runOnce(simulateProcess(undefined), event);
      const { rows } = await db.pool.query<{ ended: string | null }>(
        'select ended from mails where shop_id = $1',
        [shopId],
      );
      const arrived = server.received.filter(({ to }) => to.includes(email)).length;
      const result = `${rows.map((row) => row.ended).join()} and ${arrived} arrived`;
      counts.set(result, (counts.get(result) ?? 0) + 1);
    }
    if (isPastEnd) break;
  }
  // A mail is unknown only if the process died between the hand-over and the recorded result.
  expect([...counts.keys()].toSorted()).toEqual(
    expect.arrayContaining(['sent and 1 arrived', 'unknown and 1 arrived']),
  );
  expect(
    [...counts.keys()].filter((one) => !/^(sent and 1|unknown and [01]) arrived$/.test(one)),
  ).toEqual([]);
  expect(counts.get('sent and 1 arrived')).toBeGreaterThan(10);
}, 300_000);
