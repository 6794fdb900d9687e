import { randomUUID } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type LabelRequest,
  LabelRequest_State,
  type Return,
  ReturnMethod,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { WAREHOUSE } from '../../../test/kit/services/fake-destinations.ts';
import {
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
  stateForbids,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const alreadyOpen = { code: Code.AlreadyExists, reason: 'ALREADY_OPEN', field: undefined };

/** A return without a request, in a shop whose labels come from a third party. */
async function dropOff(): Promise<Return> {
  const shopId = await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY });
  return bench.submit(shopId, { returnMethod: ReturnMethod.DROP_OFF, destinationId: WAREHOUSE });
}

const requestLabel = (of: Return) =>
  bench.client.requestLabel({ shopId: of.shopId, actor, returnId: of.id });
const withdraw = (request: LabelRequest) =>
  bench.client.cancelLabelRequest({ shopId: request.shopId, actor, requestId: request.id });

describe('request label', () => {
  test('publishes the request without changing the details', async () => {
    const submitted = await dropOff();
    const { labelRequest } = await requestLabel(submitted);
    expect(labelRequest).toMatchObject({
      returnId: submitted.id,
      state: LabelRequest_State.OPEN,
      destination: { city: 'Leeds' },
    });
    expect(await bench.triggers(submitted)).toEqual(['label.request.issued']);
    expect((await bench.read(submitted)).revision).toBe(1n);
  });

  test('allows one open request at a time, also in parallel calls', async () => {
    const submitted = await dropOff();
    const calls = await Promise.allSettled([
      requestLabel(submitted),
      requestLabel(submitted),
      requestLabel(submitted),
    ]);
    expect(calls.filter((call) => call.status === 'fulfilled')).toHaveLength(1);
    expect(await refusal(requestLabel(submitted))).toEqual(alreadyOpen);
  });

  test('rejects a shop that makes its own labels, an ended return, and an unknown one', async () => {
    expect(await refusal(requestLabel(await bench.submit(await bench.shop())))).toEqual(
      stateForbids,
    );
    const submitted = await dropOff();
    expect(await refusal(requestLabel({ ...submitted, id: 999_999_998n }))).toEqual(
      notFound('RETURN'),
    );
    await bench.end(submitted, 'cancelled');
    expect(await refusal(requestLabel(submitted))).toEqual(stateForbids);
  });
});

describe('cancel label request', () => {
  test('cancels an open request once; then another one is possible', async () => {
    const submitted = await dropOff();
    const request = present((await requestLabel(submitted)).labelRequest);
    const { labelRequest } = await withdraw(request);
    expect(labelRequest).toEqual({ ...request, state: LabelRequest_State.CANCELLED });
    expect(await refusal(withdraw(request))).toEqual(stateForbids);
    await requestLabel(submitted);
    expect(await bench.triggers(submitted)).toEqual([
      'label.request.issued',
      'label.request.cancelled',
      'label.request.issued',
    ]);
  });

  test('rejects a request that does not exist', async () => {
    const request = present((await requestLabel(await dropOff())).labelRequest);
    expect(await refusal(withdraw({ ...request, id: 1n << 40n }))).toEqual(
      notFound('LABEL_REQUEST'),
    );
  });

  test('rejects a request that a label has fulfilled', async () => {
    const submitted = await dropOff();
    const request = present((await requestLabel(submitted)).labelRequest);
    await bench.client.recordLabel({
      shopId: submitted.shopId,
      actor,
      idempotencyKey: randomUUID(),
      returnId: submitted.id,
      carrier: 'DHL',
    });
    expect(await refusal(withdraw(request))).toEqual(stateForbids);
  });
});
