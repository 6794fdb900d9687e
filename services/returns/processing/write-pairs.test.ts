import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
  FlagReturnRequestSchema,
  InstantRefundState,
  OpenInstantRefundRequestSchema,
  SettleInstantRefundRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { outcomesOfPair, pairsOf } from '../../../test/kit/postgres/raced.ts';
import {
  actor,
  newReturn,
  newShop,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
} from '../../../test/kit/services/processing.ts';
import { storeOf } from '../../../test/kit/services/return-stores.ts';
import { firstLine } from '../../../test/kit/services/returns-bench.ts';
import { cancelReturn } from '../cancel.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { editReturn } from '../edit/edit.ts';
import { flagReturn } from '../flag.ts';
import { openInstantRefund, settleInstantRefund } from '../instant-refunds/instant-refunds.ts';
import { listInstantRefunds } from '../instant-refunds/instant-refunds-store.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

interface Target {
  readonly of: Return;
  /** An open instant refund of the return; undefined when it has none. */
  readonly creditId: bigint | undefined;
}

const by = ({ of }: Target) => ({ shopId: of.shopId, actor, returnId: of.id });
const store = () => storeOf(db.pool);

const open = (of: Return, amount: string) =>
  openInstantRefund(
    db.pool,
    create(OpenInstantRefundRequestSchema, {
      shopId: of.shopId,
      actor,
      returnId: of.id,
      idempotencyKey: amount,
      amount,
    }),
  );

/** Writes of a return, or of its instant refund, that decide what is paid. Each returns what does not differ by order. */
const WRITES: Readonly<Record<string, (target: Target) => Promise<unknown>>> = {
  process: async ({ of }) => (await requestProcessing(db.pool, of)).case,
  cancel: async (target) =>
    (await cancelReturn(store(), create(CancelReturnRequestSchema, by(target)))).state,
  flag: async (target) => {
    const flag = create(FlagReturnRequestSchema, { ...by(target), reasons: ['odd'] });
    return (await flagReturn(store(), flag)).state;
  },
  edit: async (target) => {
    const changes = [{ lineItemId: firstLine(target.of), refundItem: { shop: '15.00' } }];
    const edit = { ...by(target), expectedRevision: target.of.revision, changes };
    return (await editReturn(store(), create(EditReturnRequestSchema, edit))).revision;
  },
  'instant refund': async ({ of }) => (await open(of, '3.00')).state,
  settle: async ({ of: { shopId }, creditId }) => {
    const end = { shopId, actor, creditId: creditId ?? 1n, result: InstantRefundState.RETURNED };
    return (await settleInstantRefund(db.pool, create(SettleInstantRefundRequestSchema, end)))
      .state;
  },
};

/** What was paid in the end, and what is stored. */
async function outcome({ of }: Target): Promise<unknown> {
  const commerce = createEmbeddedCommerce(db.pool);
  await runDue(runDeps(db.pool, commerce));
  const { rows } = await db.pool.query(
    'select state, processing, flag_reasons, revision from returns where shop_id = $1 and id = $2',
    [of.shopId, of.id],
  );
  const { refunds } = await commerce.ordersOf(of.id);
  const credits = await listInstantRefunds(db.pool, { shopId: of.shopId, returnId: of.id });
  return {
    rows,
    refunds: refunds.map(({ amount, calls }) => [amount, calls]),
    credits: credits.map(({ amount, state }) => [amount, state]),
    timeline: (await timelineOf(db.pool, of)).map(({ kind }) => kind).sort(),
  };
}

const text = 'select from returns where shop_id = $1 and id = $2 for update';

describe.each([false, true])('of a return with an open instant refund (%s)', (isPaidEarly) => {
  const names = Object.keys(WRITES).filter((name) => isPaidEarly || name !== 'settle');

  test.each(pairsOf(names))('%s, then %s, at the same time pay as in turn', async (...pair) => {
    const { together, serial } = await outcomesOfPair<Target>(
      {
        pool: db.pool,
        async make() {
          const of = await newReturn(db.pool, await newShop(db.pool));
          return { of, creditId: isPaidEarly ? (await open(of, '8.00')).id : undefined };
        },
        lock: ({ of }) => ({ text, values: [of.shopId, of.id] }),
        writes: WRITES,
        stored: outcome,
      },
      pair,
    );
    expect(together).toEqual(serial);
  });
});
