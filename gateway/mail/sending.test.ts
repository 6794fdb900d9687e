import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { type MailsUnderTest, runMails } from '../../test/kit/mail/running-mails.ts';
import { webhookEvents } from '../../test/kit/mail/webhook-events.ts';
import { until } from '../../test/kit/until.ts';
import { removeMember } from '../tenancy/members.ts';

let mail: MailsUnderTest;
beforeAll(async () => {
  mail = await runMails();
});
afterAll(() => mail.stop());
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

describe('the statement in docs/operations.md sends again', () => {
  const page = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
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
    async () => (await mail.metric('db_client_connections', 'state="idle",pool="mails"')) > 0,
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
