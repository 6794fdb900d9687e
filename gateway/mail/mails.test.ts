import { readFileSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind, ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  type EventBus,
  eventsTopic,
  type Subscription,
} from '../../services/platform/bus/event-bus.ts';
import type { Telemetry } from '../../services/platform/telemetry/telemetry.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { type MailServer, startMailServer } from '../../test/kit/mail/mail-server.ts';
import { type MailsUnderTest, runMails } from '../../test/kit/mail/running-mails.ts';
import { recordOf, webhookEvents } from '../../test/kit/mail/webhook-events.ts';
import { silentLogger, testTelemetry } from '../../test/kit/services/telemetry.ts';
import {
  poolOf,
  type SimulatedProcess,
  simulateProcess,
  WHENS,
} from '../../test/kit/simulated-process.ts';
import { until } from '../../test/kit/until.ts';
import { KNOWN_CLIENTS } from '../oauth/clients/known-clients.ts';
import { createSupportedClients } from '../oauth/clients/supported-clients.ts';
import { createPartnerGrants } from '../oauth/partners/grants.ts';
import { createGrants } from '../oauth/tokens/grants.ts';
import { removeMember } from '../tenancy/members.ts';
import { createPartnerApp } from '../tenancy/partner-apps.ts';
import { mailAdder } from './add-mails.ts';
import { sendMail } from './smtp.ts';
import { sendDueMails, startMailConsumer } from './start.ts';

let mail: MailsUnderTest;
beforeAll(async () => {
  mail = await runMails();
});
afterAll(() => mail.stop());

describe('a failing endpoint', () => {
  test('has a mail for each of the members who may see or manage developer settings', async () => {
    const { shopId, addressOf } = await mail.newShop('admin', 'developer', 'warehouse', 'analyst');
    await mail.publish(webhookEvents.failing({ shopId }));
    const { to, arrived } = await mail.ended(shopId, 3);
    const notified = (['admin', 'developer', 'owner'] as const).map((role) => addressOf(role));
    expect(to).toEqual(notified.toSorted());
    expect(arrived.every(({ to: all }) => all?.length === 1)).toBe(true);
    expect(arrived[0]?.subject).toContain('Webhooks to hooks.example.com fail');
    expect(arrived[0]?.text).toContain('answered 500');
  });

  test('has at most one mail a day, but the end of a subscription always has a mail', async () => {
    const { shopId } = await mail.newShop();
    await mail.publish(webhookEvents.failing({ shopId }, 50));
    await mail.ended(shopId, 1);
    const before = await mail.metric('mails_suppressed_total', 'kind="endpoint_failing"');
    await mail.publish(
      webhookEvents.failing({ shopId }, 70),
      webhookEvents.failing({ shopId, id: 8n }),
    );
    await mail.publish(webhookEvents.exhausted({ shopId }), webhookEvents.disabled({ shopId }));
    const { rows } = await mail.ended(shopId, 2);
    expect(rows.map(({ kind }) => kind)).toEqual(['endpoint_failing', 'endpoint_disabled']);
    const after = await mail.metric('mails_suppressed_total', 'kind="endpoint_failing"');
    expect(after - before).toBe(2);

    // Another endpoint, another day.
    await mail.publish(webhookEvents.exhausted({ shopId, endpointId: 6n }));
    await mail.ended(shopId, 3);
    await mail.pool.query('update mail_days set day = day - 1 where shop_id = $1', [shopId]);
    await mail.publish(webhookEvents.failing({ shopId }, 90));
    await mail.ended(shopId, 4);
  });

  test('an event that arrives again has one mail', async () => {
    const { shopId } = await mail.newShop();
    const event = webhookEvents.disabled({ shopId });
    await mail.publish(event, event);
    await mail.publish(event);
    const other = webhookEvents.exhausted({ shopId, endpointId: 6n });
    await mail.publish(other);
    const { rows } = await mail.ended(shopId, 2);
    expect(rows.map(({ kind }) => kind)).toEqual(['endpoint_disabled', 'endpoint_exhausted']);
  });

  test('an event without a valid signature has no mail', async () => {
    const { shopId } = await mail.newShop();
    await mail.bus.publish(eventsTopic('webhooks'), [recordOf(webhookEvents.failing({ shopId }))]);
    await mail.publish(webhookEvents.disabled({ shopId }));
    const { rows } = await mail.ended(shopId, 1);
    expect(rows.map(({ kind }) => kind)).toEqual(['endpoint_disabled']);
  });
});

test('facts about one address that come together are one mail', async () => {
  const { shopId } = await mail.newShop();
  await mail.restart({ gatherS: '3600' });
  const ids = [11n, 12n, 13n];
  for (const id of ids) await mail.publish(webhookEvents.disabled({ shopId, id }));
  await until(async () => {
    const { rows } = await mail.pool.query<{ facts: number }>(
      'select jsonb_array_length(facts) as facts from mails where shop_id = $1',
      [shopId],
    );
    return rows.length === 1 && rows[0]?.facts === ids.length;
  });
  await mail.pool.query('update mails set due_at = now() where shop_id = $1', [shopId]);
  await mail.restart();
  const { arrived } = await mail.ended(shopId, 1);
  for (const id of ids) expect(arrived[0]?.text).toContain(`subscription ${id} `);
});

describe('the owners', () => {
  test('learn who saw or rotated a secret', async () => {
    const { shopId, addressOf } = await mail.newShop('developer');
    const { rows } = await mail.pool.query<{ id: bigint }>(
      'select id from users where email = $1',
      [addressOf('developer')],
    );
    const user = create(ActorSchema, { kind: Actor_Kind.USER, id: String(rows[0]?.id), name: 'D' });
    const key = create(ActorSchema, { kind: Actor_Kind.API_KEY, id: 'k3v9x0aabbcc', name: 'ERP' });
    await mail.publish(webhookEvents.revealed({ shopId }, user));
    await mail.publish(webhookEvents.revealed({ shopId }, user));
    await mail.publish(webhookEvents.revealed({ shopId }, key, true));
    const { to, arrived } = await mail.ended(shopId, 2);
    expect(to).toEqual([addressOf('owner'), addressOf('owner')]);
    const texts = arrived.map(({ text = '' }) => text).join();
    expect(texts).toContain(`By: ${addressOf('developer')}`);
    expect(texts).toContain('By: the API key k3v9x0aabbcc (ERP)');
    expect(texts).not.toContain('whsec_');
  });

  test("learn that a member connected a partner's app, with what it may do", async () => {
    const { shopId, addressOf } = await mail.newShop('developer');
    const { rows } = await mail.pool.query<{ id: bigint }>(
      'select id from users where email = $1',
      [addressOf('developer')],
    );
    const { clientId } = await createPartnerApp(mail.pool, {
      name: 'Parcels',
      redirectUris: ['https://app.example.com/callback'],
      scopes: ['labels:write'],
    });
    const grants = createPartnerGrants({
      pool: mail.pool,
      issuer: 'https://api.example.com/partners',
      resource: 'https://api.example.com',
      logger: silentLogger(),
      mails: mail.mails(),
    });
    const userId = rows[0]?.id ?? 0n;
    const grant = { shopId, userId, clientId, ttlS: 60, scopes: ['labels:write'] };
    for (const id of ['a', 'a', 'b']) await grants.put(`grant-${shopId}-${id.repeat(20)}`, grant);
    const { to, arrived } = await mail.ended(shopId, 1);
    expect(to).toEqual([addressOf('owner')]);
    for (const part of [
      'Parcels',
      'record shipping labels',
      `By: ${addressOf('developer')}`,
      clientId,
    ]) {
      expect(arrived[0]?.text).toContain(part);
    }
  });

  test('learn that a member connected an assistant', async () => {
    const { shopId, addressOf } = await mail.newShop('warehouse');
    const { rows } = await mail.pool.query<{ id: bigint }>(
      'select id from users where email = $1',
      [addressOf('warehouse')],
    );
    const grants = createGrants({
      pool: mail.pool,
      resource: 'https://api.example.com/mcp',
      clients: createSupportedClients('rms-mcp', KNOWN_CLIENTS),
      logger: silentLogger(),
      mails: mail.mails(),
    });
    const grant = { shopId, userId: rows[0]?.id ?? 0n, clientId: 'claude', ttlS: 60, scopes: [] };
    await grants.put(`grant-${shopId}-aaaaaaaaaaaaaaaaaaaa`, grant);
    await grants.put(`grant-${shopId}-aaaaaaaaaaaaaaaaaaaa`, grant);
    const { to, arrived } = await mail.ended(shopId, 1);
    expect(to).toEqual([addressOf('owner')]);
    expect(arrived[0]?.text).toContain(`By: ${addressOf('warehouse')}`);
  });
});

describe('the sending of mails', () => {
  afterEach(() => {
    mail.server.rejects = undefined;
  });

  describe('a mail that the server does not take', () => {
    test('at first, as with greylisting, is sent later', async () => {
      const { shopId } = await mail.newShop();
      mail.server.rejects = { at: 'recipient', code: 450 };
      await mail.publish(webhookEvents.failing({ shopId }));
      await until(async () => {
        const { rows } = await mail.pool.query(
          'select from mails where shop_id = $1 and attempts > 0',
          [shopId],
        );
        return rows.length === 1;
      });
      mail.server.rejects = undefined;
      const { rows, arrived } = await mail.ended(shopId, 1);
      // Two pauses of a millisecond may pass before the server changes its mind.
      expect(['sent', 'failed']).toContain(rows[0]?.ended);
      expect(arrived).toHaveLength(rows[0]?.ended === 'sent' ? 1 : 0);
    });

    test.each([
      ['for good', { at: 'recipient', code: 550 }],
      ['ever', { at: 'content', code: 451 }],
    ] as const)('%s is counted as failed, and not sent again', async (_, rejects) => {
      const { shopId } = await mail.newShop();
      const before = await mail.metric(
        'mails_ended_total',
        'kind="endpoint_failing",outcome="failed"',
      );
      mail.server.rejects = rejects;
      await mail.publish(webhookEvents.failing({ shopId }));
      const { rows, arrived } = await mail.ended(shopId, 1);
      expect(rows).toMatchObject([
        { ended: 'failed', error: expect.stringContaining(String(rejects.code)) },
      ]);
      expect(arrived).toEqual([]);
      const after = await mail.metric(
        'mails_ended_total',
        'kind="endpoint_failing",outcome="failed"',
      );
      expect(after - before).toBe(1);
    });
  });

  test('the age of the oldest mail counts one whose next try is ahead', async () => {
    const { shopId } = await mail.newShop();
    mail.server.rejects = { at: 'recipient', code: 450 };
    await mail.restart({ pausesMs: [3_600_000] });
    await mail.publish(webhookEvents.failing({ shopId }));
    await until(async () => {
      const { rowCount } = await mail.pool.query(
        `update mails set created_at = created_at - interval '2 hours' where shop_id = $1 and attempts = 1`,
        [shopId],
      );
      return rowCount === 1;
    });
    const seconds = await mail.metric('mails_oldest_age_seconds');
    await mail.restart();
    expect(seconds).toBeGreaterThan(3_600);
  });

  describe('the statement in docs/runbook.md sends again', () => {
    const page = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');
    const [sendAgain = ''] = /update gateway\.mails\s[^;]+;/.exec(page) ?? [];

    test('a mail that the server rejected after it had got the content', async () => {
      const { shopId } = await mail.newShop();
      mail.server.rejects = { at: 'content', code: 550 };
      await mail.publish(webhookEvents.failing({ shopId }));
      expect((await mail.ended(shopId, 1)).rows).toMatchObject([{ ended: 'failed' }]);
      mail.server.rejects = undefined;
      await mail.pool.query(sendAgain);
      await mail.restart();
      const { rows, arrived } = await mail.ended(shopId, 1);
      expect(rows).toMatchObject([{ ended: 'sent' }]);
      expect(arrived).toHaveLength(1);
    });

    test('a mail of a process that died while a server took it', async () => {
      const { shopId } = await mail.newShop();
      await mail.restart({ gatherS: '3600' });
      await mail.publish(webhookEvents.failing({ shopId }));
      await mail.stored(shopId, 1);
      await mail.pool.query(
        'update mails set handed_over_at = now(), due_at = now() where shop_id = $1',
        [shopId],
      );
      await mail.restart();
      expect((await mail.ended(shopId, 1)).rows).toMatchObject([{ ended: 'unknown' }]);
      await mail.pool.query(sendAgain.replace("'failed'", "'unknown'"));
      await mail.restart();
      const { rows, arrived } = await mail.ended(shopId, 1);
      expect(rows).toMatchObject([{ ended: 'sent' }]);
      expect(arrived).toHaveLength(1);
    });
  });

  test('a member who was removed gets no mail', async () => {
    const { shopId, addressOf } = await mail.newShop('developer');
    await mail.restart({ gatherS: '3600' });
    await mail.publish(webhookEvents.failing({ shopId }));
    await mail.stored(shopId, 2);
    await removeMember(mail.pool, { shopId, email: addressOf('developer'), by: TEST_AUTHOR });
    await mail.pool.query('update mails set due_at = now() where shop_id = $1', [shopId]);
    await mail.restart();
    const { to, rows } = await mail.ended(shopId, 2);
    expect(to).toEqual([addressOf('owner')]);
    expect(rows.map((row) => row.ended).toSorted()).toEqual(['dropped', 'sent']);
  });

  test('a mail that this release cannot read does not hold up others, and fails in the end', async () => {
    const [{ shopId }, other] = await Promise.all([mail.newShop(), mail.newShop()]);
    await mail.restart({ gatherS: '3600' });
    await mail.publish(webhookEvents.disabled({ shopId }), webhookEvents.disabled(other));
    await mail.stored(shopId, 1);
    await mail.stored(other.shopId, 1);
    await mail.pool.query(`update mails set facts = '[{"kind": "later"}]' where shop_id = $1`, [
      shopId,
    ]);
    await mail.pool.query('update mails set due_at = now() where ended is null');
    await mail.restart();
    expect((await mail.ended(other.shopId, 1)).rows).toMatchObject([{ ended: 'sent' }]);
    expect((await mail.ended(shopId, 1)).rows).toMatchObject([{ ended: 'failed' }]);
  });

  test('the connections of mails are measured', async () => {
    const { shopId } = await mail.newShop();
    await mail.publish(webhookEvents.failing({ shopId }));
    await mail.ended(shopId, 1);
    await until(
      async () =>
        (await mail.metric(
          'db_client_connection_count',
          'db_client_connection_pool_name="mails",db_client_connection_state="idle"',
        )) > 0,
    );
  });

  test('two replicas send each mail once', async () => {
    const second = await mail.startReplica();
    const all = await Promise.all(Array.from({ length: 8 }, () => mail.newShop()));
    await mail.publish(...all.map(({ shopId }) => webhookEvents.disabled({ shopId })));
    for (const { shopId, addressOf } of all) {
      expect((await mail.ended(shopId, 1)).to).toEqual([addressOf('owner')]);
    }
    await second.stop();
  });
});

describe('a gateway that is killed', () => {
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
  afterAll(() => Promise.all([server.stop(), telemetry.stop(), db.drop()]));

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
    const consumer = await startMailConsumer({
      bus,
      pool,
      logger,
      telemetry,
      retentionDays: 7,
      add,
    });
    try {
      await handle?.([{ ...recordOf(event), topic: 'rms.webhooks.events.v1', position: '0:1' }]);
      await sendDueMails({
        pool,
        logger,
        metrics: { ended() {} },
        publicUrl: 'https://api.example.com',
        hasPortal: true,
        returns: { declareWithdrawal: mail.declare },
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
        await db.pool.query(
          'update mails set due_at = now() where shop_id = $1 and ended is null',
          [shopId],
        );
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
  });
});
