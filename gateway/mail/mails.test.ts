import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind, ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { eventsTopic } from '../../services/platform/bus/event-bus.ts';
import { type MailsUnderTest, runMails } from '../../test/kit/mail/running-mails.ts';
import { recordOf, webhookEvents } from '../../test/kit/mail/webhook-events.ts';
import { silentLogger } from '../../test/kit/services/telemetry.ts';
import { until } from '../../test/kit/until.ts';
import { createGrants } from '../oauth/grants.ts';

let mail: MailsUnderTest;
beforeAll(async () => {
  mail = await runMails();
});
afterAll(() => mail.stop());

describe('a failing endpoint', () => {
  test('is told to the members who may see or manage developer settings, each in a mail of their own', async () => {
    const { shopId, addressOf } = await mail.newShop('admin', 'developer', 'warehouse', 'analyst');
    await mail.publish(webhookEvents.failing({ shopId }));
    const { to, arrived } = await mail.ended(shopId, 3);
    const told = (['admin', 'developer', 'owner'] as const).map((role) => addressOf(role));
    expect(to).toEqual(told.toSorted());
    expect(arrived.every(({ to: all }) => all?.length === 1)).toBe(true);
    expect(arrived[0]?.subject).toContain('Webhooks to hooks.example.com fail');
    expect(arrived[0]?.text).toContain('answered 500');
  });

  test('has at most one mail a day, but the end of a subscription is always told', async () => {
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

  test('an event that arrives again is told once', async () => {
    const { shopId } = await mail.newShop();
    const event = webhookEvents.disabled({ shopId });
    await mail.publish(event, event);
    await mail.publish(event);
    const other = webhookEvents.exhausted({ shopId, endpointId: 6n });
    await mail.publish(other);
    const { rows } = await mail.ended(shopId, 2);
    expect(rows.map(({ kind }) => kind)).toEqual(['endpoint_disabled', 'endpoint_exhausted']);
  });

  test('an event without a valid signature is not told', async () => {
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

  test('learn that a member connected an assistant', async () => {
    const { shopId, addressOf } = await mail.newShop('warehouse');
    const { rows } = await mail.pool.query<{ id: bigint }>(
      'select id from users where email = $1',
      [addressOf('warehouse')],
    );
    const grants = createGrants({
      pool: mail.pool,
      resource: 'https://api.example.com/mcp',
      logger: silentLogger(),
      mails: mail.mails(),
    });
    const grant = { shopId, userId: rows[0]?.id ?? 0n, clientId: 'claude', ttlS: 60 };
    await grants.put(`grant-${shopId}-aaaaaaaaaaaaaaaaaaaa`, grant);
    await grants.put(`grant-${shopId}-aaaaaaaaaaaaaaaaaaaa`, grant);
    const { to, arrived } = await mail.ended(shopId, 1);
    expect(to).toEqual([addressOf('owner')]);
    expect(arrived[0]?.text).toContain(`By: ${addressOf('warehouse')}`);
  });
});
