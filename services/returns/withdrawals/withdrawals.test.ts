import { randomUUID } from 'node:crypto';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WithdrawalHandling } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import type { Withdrawal } from '../../../proto/gen/rms/returns/v1/withdrawals_pb.ts';
import {
  invalid,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { purge } from '../retention/purge.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

/** The sample orders of the demo belong to this address. */
const EMAIL = 'shopper@example.com';
const STATED = { orderName: '#T10-7001', name: 'Ada Example', email: EMAIL };

async function declare(shopId: bigint, more: object = {}): Promise<Withdrawal> {
  const request = { shopId, actor, idempotencyKey: randomUUID(), ...STATED, ...more };
  return present((await bench.client.declareWithdrawal(request)).withdrawal);
}

const list = async (shopId: bigint, more: object = {}) =>
  bench.client.listWithdrawals({ shopId, actor, ...more });
const makeReturn = async ({ shopId, id: withdrawalId }: Withdrawal) =>
  present((await bench.client.returnWithdrawal({ shopId, actor, withdrawalId })).return);

describe('a withdrawal', () => {
  test('is recorded as it was stated, once, and published', async () => {
    const shopId = await bench.shop();
    const declaredAt = timestampFromDate(new Date(Date.now() - 1_000));
    const key = { idempotencyKey: 'k1', declaredAt };
    const made = await declare(shopId, { ...key, orderName: 'nobody knows it' });
    expect(made).toMatchObject({ ...STATED, orderName: 'nobody knows it', returnId: 0n });
    expect(timestampDate(present(made.declaredAt))).toEqual(timestampDate(declaredAt));
    const again = await declare(shopId, { idempotencyKey: 'k1', orderName: 'nobody knows it' });
    expect(again).toEqual(made);
    expect(await refusal(declare(shopId, { idempotencyKey: 'k1' }))).toMatchObject({
      code: Code.AlreadyExists,
    });
    expect((await list(shopId)).withdrawals).toEqual([made]);
    const { rows } = await bench.db.pool.query(
      `select count(*)::int as count from events where shop_id = $1 and trigger = 'withdrawal.received'`,
      [shopId],
    );
    expect(rows).toEqual([{ count: 1 }]);
  });

  test.each([
    [{ orderName: ' ' }, 'order_name'],
    [{ name: '' }, 'name'],
    [{ name: 'x'.repeat(192) }, 'name'],
    [{ email: 'nobody' }, 'email'],
    [{ declaredAt: timestampFromDate(new Date('2999-01-01')) }, 'declared_at'],
  ])('is rejected with %j', async (more, field) => {
    expect(await refusal(declare(await bench.shop(), more))).toEqual(invalid(field));
  });

  test('never changes', async () => {
    const { shopId, id } = await declare(await bench.shop());
    const changed = bench.db.pool.query(
      `update withdrawals set name = 'Eve' where shop_id = $1 and id = $2`,
      [shopId, id],
    );
    await expect(changed).rejects.toThrow('rows of withdrawals never change');
  });

  test('stays for three years', async () => {
    const shopId = await bench.shop();
    const { id } = await declare(shopId);
    await bench.db.pool.query(
      `insert into withdrawals (shop_id, order_name, name, email, declared_at)
       values ($1, 'old', 'Old', 'old@x.example', now() - interval '3 years 1 hour')`,
      [shopId],
    );
    await purge(bench.db.pool, 7);
    expect((await list(shopId)).withdrawals.map((one) => one.id)).toEqual([id]);
  });

  test('is in lists of its shop, newest first, in pages', async () => {
    const shopId = await bench.shop();
    const ids: bigint[] = [];
    for (const orderName of ['a', 'b', 'c']) ids.unshift((await declare(shopId, { orderName })).id);
    const first = await list(shopId, { pageSize: 2 });
    const rest = await list(shopId, { pageSize: 2, cursor: first.nextCursor });
    const shown = [...first.withdrawals, ...rest.withdrawals].map(({ id }) => id);
    expect([shown, rest.nextCursor]).toEqual([ids, '']);
    expect((await list(await bench.shop())).withdrawals).toEqual([]);
    const other = list(await bench.shop(), { cursor: first.nextCursor });
    expect(await refusal(other)).toEqual(invalid('cursor'));
  });
});

describe('the return of a withdrawal', () => {
  test('has all that is left of the order, once, although the policy refuses it', async () => {
    const shopId = await bench.shop();
    await bench.client.updatePolicy({
      ...{ shopId, actor, expectedVersion: 0n },
      policy: { finalSale: { skus: ['*'] } },
    });
    const withdrawal = await declare(shopId);
    const [made, again] = await Promise.all([makeReturn(withdrawal), makeReturn(withdrawal)]);
    expect([again.id, made.order?.name]).toEqual([made.id, STATED.orderName]);
    expect(made.lineItems.length).toBeGreaterThan(0);
    expect((await list(shopId)).withdrawals).toMatchObject([{ returnId: made.id }]);
    const [entry] = (await bench.timeline(made)).filter(({ kind }) => kind === 'return.submitted');
    expect(entry?.facts).toMatchObject({ withdrawal_id: String(withdrawal.id) });
  });

  test('needs the e-mail address of the order', async () => {
    const shopId = await bench.shop();
    const refused = makeReturn(await declare(shopId, { email: 'eve@example.com' }));
    expect(await refusal(refused)).toMatchObject({
      reason: 'ORDER_NOT_FOUND',
    });
  });

  test('is made at once if the policy says so', async () => {
    const shopId = await bench.shop();
    await bench.client.updatePolicy({
      ...{ shopId, actor, expectedVersion: 0n },
      policy: { withdrawals: WithdrawalHandling.RETURN },
    });
    await declare(shopId, { orderName: 'unknown', email: 'eve@example.com' });
    const { id } = await declare(shopId);
    const withdrawals = await until(async () => {
      const found = (await list(shopId)).withdrawals;
      return found.some(({ returnId }) => returnId !== 0n) && found;
    });
    expect(withdrawals.filter(({ returnId }) => returnId !== 0n).map((one) => one.id)).toEqual([
      id,
    ]);
  });
});
