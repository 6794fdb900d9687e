import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import PostalMime from 'postal-mime';
import { DeclareWithdrawalResponseSchema } from '../../proto/gen/rms/returns/v1/withdrawals_pb.ts';
import { type MailsUnderTest, runMails } from '../../test/kit/mail/running-mails.ts';
import { until } from '../../test/kit/until.ts';

let mail: MailsUnderTest;
let recorded: string[];
beforeAll(async () => {
  mail = await runMails();
});
afterAll(() => mail.stop());
beforeEach(() => {
  recorded = [];
  mail.declare = async ({ idempotencyKey = '' }) => {
    recorded.push(idempotencyKey);
    return create(DeclareWithdrawalResponseSchema);
  };
});

const of = (shopId: bigint, more: object = {}) => ({
  shopId,
  ...{ idempotencyKey: `shopper:${randomUUID()}`, orderName: '#1001', name: 'Ada Example' },
  ...{ email: `${randomUUID()}@shopper.example`, language: 'de' as const },
  ...more,
});

/** The mails that an address has got. */
const arrivedAt = (address: string) =>
  Promise.all(
    mail.server.received
      .filter(({ to }) => to.includes(address))
      .map(({ raw }) => PostalMime.parse(raw)),
  );

/** Lets the mails of a shop be due. */
const passTwoMinutes = (shopId: bigint) =>
  mail.pool.query('update mails set due_at = now() where shop_id = $1 and ended is null', [shopId]);

describe('the acknowledgement of a withdrawal', () => {
  test('says what was declared and when, in the language of the shopper, after it is recorded', async () => {
    const { shopId } = await mail.newShop();
    const declared = of(shopId);
    const stored = await mail.mails().addWithdrawal(declared);
    await stored?.due();
    const { rows } = await mail.ended(shopId, 1);
    const arrived = await arrivedAt(declared.email);
    expect(rows).toMatchObject([{ ended: 'sent', kind: 'withdrawal_received' }]);
    expect(arrived[0]?.subject).toContain('Ihr Widerruf: Bestellung #1001');
    for (const part of ['Ada Example', '#1001', declared.email, 'Eingegangen am: ']) {
      expect(arrived[0]?.text).toContain(part);
    }
    expect(arrived[0]?.text).toMatch(/\d\d:\d\d:\d\d UTC/);
    expect(recorded).toEqual([declared.idempotencyKey]);
  });

  test('is one mail for a repeated click, with the time of the first', async () => {
    const { shopId } = await mail.newShop();
    const declared = of(shopId);
    const [first, second] = await Promise.all([
      mail.mails().addWithdrawal(declared),
      mail.mails().addWithdrawal(declared),
    ]);
    expect(second?.declaredAt).toEqual(first?.declaredAt);
    await first?.due();
    await mail.ended(shopId, 1);
    expect(await arrivedAt(declared.email)).toHaveLength(1);
  });

  test('of a process that died before it recorded the withdrawal is sent after it is recorded', async () => {
    const { shopId } = await mail.newShop();
    const declared = of(shopId);
    await mail.mails().addWithdrawal(declared);
    await passTwoMinutes(shopId);
    expect((await mail.ended(shopId, 1)).rows).toMatchObject([{ ended: 'sent' }]);
    expect(recorded).toEqual([declared.idempotencyKey]);
  });

  test('waits while the withdrawal cannot be recorded', async () => {
    const { shopId } = await mail.newShop();
    mail.declare = async () => {
      throw new Error('not available');
    };
    const declared = of(shopId);
    const stored = await mail.mails().addWithdrawal(declared);
    await stored?.due();
    const error = await until(async () => {
      const { rows } = await mail.pool.query<{ error: string }>(
        `select error from mails where shop_id = $1 and error <> ''`,
        [shopId],
      );
      return rows[0]?.error;
    });
    expect(error).toBe('not recorded: not available');
    expect(await arrivedAt(declared.email)).toEqual([]);
  });

  test('goes to one address ten times a day at most, in any case of letters', async () => {
    const { shopId } = await mail.newShop();
    const email = `${randomUUID()}@Flood.example`;
    const add = (address: string) => mail.mails().addWithdrawal(of(shopId, { email: address }));
    const first = await Promise.all(Array.from({ length: 12 }, () => add(email)));
    expect(first.filter((one) => one !== undefined)).toHaveLength(10);
    expect(await add(email.toLowerCase())).toBeUndefined();
    expect(await add(`other-${email}`)).toBeDefined();
  });
});
