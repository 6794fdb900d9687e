import { randomInt, randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { type Client, Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { Outcome, type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
  FlagReturnRequestSchema,
  InstantRefundState,
  OpenInstantRefundRequestSchema,
  ReturnsService,
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
import { SERVICE_TOKEN, testSettings } from '../../../test/kit/settings.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { createInProcessBus } from '../../platform/bus/in-process.ts';
import type { RunningService } from '../../platform/process/service.ts';
import { createServiceClient } from '../../platform/rpc/client.ts';
import { staticIdentity } from '../../platform/security/identity.ts';
import { reasonOf } from '../../platform/values/errors.ts';
import { returnsShape } from '../config.ts';
import { editReturn } from '../edit/edit.ts';
import { openInstantRefund, settleInstantRefund } from '../instant-refunds/instant-refunds.ts';
import { listInstantRefunds } from '../instant-refunds/instant-refunds-store.ts';
import { cancelReturn } from '../review/cancel.ts';
import { flagReturn } from '../review/flag.ts';
import { startReturns } from '../start.ts';

describe('processing over gRPC', () => {
  // Processing over gRPC with its own workers, as other services use it.
  const identity = staticIdentity(SERVICE_TOKEN);
  const actor = { kind: Actor_Kind.SERVICE, id: 'test' };
  const shopId = BigInt(randomInt(1, 2 ** 40));

  let db: TestDatabase;
  let service: RunningService;
  let channel: { client: Client<typeof ReturnsService>; close(): void };
  let returns: Client<typeof ReturnsService>;

  beforeAll(async () => {
    db = await createTestDatabase('returns');
    const nowhere = { DESTINATIONS_TARGET: '127.0.0.1:1', FRAUD_TARGET: '127.0.0.1:1' };
    const settings = testSettings(returnsShape, { DATABASE_URL: db.url, ...nowhere });
    service = await startReturns({ ...settings, bus: createInProcessBus() });
    channel = createServiceClient(ReturnsService, {
      target: `127.0.0.1:${service.port}`,
      identity,
    });
    returns = channel.client;
    await returns.updateSettings({ shopId, actor, settings: { currency: 'EUR' } });
  });
  afterAll(async () => {
    channel?.close();
    await service?.stop();
    await db?.drop();
  });

  async function submit(): Promise<Return> {
    const answer = await returns.submitReturn({
      shopId,
      actor,
      idempotencyKey: randomUUID(),
      order: { providerOrderId: BigInt(randomInt(1, 2 ** 47)), name: '#7' },
      currency: 'EUR',
      outcome: Outcome.REFUND,
      lines: [
        {
          providerLineItemId: BigInt(randomInt(1, 2 ** 47)),
          lineItemTitle: 'Mug',
          quantity: 1,
          price: { shop: '9.90' },
        },
      ],
    });
    if (!answer.return) throw new Error('the submission answered no return');
    return answer.return;
  }

  async function untilState(returnId: bigint, state: ReturnState): Promise<Return> {
    for (;;) {
      const { returns: found } = await returns.getReturns({ shopId, actor, returnIds: [returnId] });
      if (found[0]?.state === state) return found[0];
    }
  }

  test('queues, and closes in the background', async () => {
    const { id: returnId } = await submit();
    const { result } = await returns.processReturn({ shopId, actor, returnId, source: 'api' });
    expect(result.case).toBe('queued');
    const closed = await untilState(returnId, ReturnState.CLOSED);
    expect(closed.refunds).toMatchObject([{ money: { value: '9.90', currency: 'EUR' } }]);
    const again = await returns.processReturn({ shopId, actor, returnId });
    expect(again.result.case).toBe('refused');
  });

  test('names a return that does not exist', async () => {
    const error = await returns
      .processReturn({ shopId, actor, returnId: 999_999_999n })
      .catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: Code.NotFound });
    expect(reasonOf(error)).toBe(ErrorReason.RETURN_NOT_FOUND);
  });

  test('opens and ends instant refunds', async () => {
    const { id: returnId } = await submit();
    const opened = await returns.openInstantRefund({
      shopId,
      actor,
      idempotencyKey: randomUUID(),
      returnId,
      amount: '5',
      chargeReference: 'ch_9',
    });
    expect(opened.credit?.money).toMatchObject({ value: '5.00', currency: 'EUR' });
    const { result } = await returns.processReturn({ shopId, actor, returnId });
    expect(result.case).toBe('skippedInstantRefund');
    const ended = await returns.settleInstantRefund({
      shopId,
      actor,
      creditId: opened.credit?.id ?? 0n,
      result: InstantRefundState.RETURNED,
    });
    expect(ended.credit?.state).toBe(InstantRefundState.RETURNED);
  });

  test('returns how many returns a sweep expired', async () => {
    expect(await returns.sweepExpired({ shopId, actor })).toMatchObject({ expired: 0 });
  });
});

describe('write pairs', () => {
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
});
