import { randomInt, randomUUID } from 'node:crypto';
import { type Client, Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { Outcome, type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  InstantRefundState,
  ReturnsService,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { SERVICE_TOKEN, testSettings } from '../../../test/kit/settings.ts';
import { createInProcessBus } from '../../platform/bus/in-process.ts';
import { reasonOf } from '../../platform/errors.ts';
import { createServiceClient } from '../../platform/grpc/client.ts';
import { staticIdentity } from '../../platform/identity.ts';
import type { RunningService } from '../../platform/service.ts';
import { returnsShape } from '../config.ts';
import { startReturns } from '../start.ts';

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

describe('processing over gRPC', () => {
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
