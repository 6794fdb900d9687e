import { randomUUID } from 'node:crypto';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type Label,
  type LabelRequest,
  LabelRequest_State,
  LabelStatus,
  type Return,
  ReturnMethod,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import { WAREHOUSE } from '../../../test/kit/services/fake-destinations.ts';
import {
  firstLine,
  invalid,
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

type Request = Omit<Parameters<ReturnsBench['client']['recordLabel']>[0], '$typeName'>;

function request(of: Return, more: Request = {}) {
  return {
    shopId: of.shopId,
    actor,
    idempotencyKey: randomUUID(),
    returnId: of.id,
    carrier: 'Royal Mail',
    trackingNumber: 'RM1',
    url: 'https://labels.example/1',
    rate: '3.2',
    ...more,
  };
}

async function record(of: Return, more: Request = {}): Promise<Label> {
  return present((await bench.client.recordLabel(request(of, more))).label);
}

const refused = (of: Return, more: Request) => refusal(bench.client.recordLabel(request(of, more)));

const NOW = Math.trunc(Date.now() / 1_000) * 1_000;

/** Days before the tests began, to the second. */
const ago = (days: number) => timestampFromDate(new Date(NOW - days * 86_400_000));

describe('record label', () => {
  test('adds a label to the return and publishes both changes', async () => {
    const submitted = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    const label = await record(submitted);
    expect(label).toMatchObject({
      returnId: submitted.id,
      rate: '3.20',
      rateMinor: 320n,
      status: LabelStatus.NEW,
      lineItemIds: submitted.lineItems.map((one) => one.lineItemId),
    });
    const after = await bench.read(submitted);
    expect(after.labels).toEqual([label]);
    expect(after.revision).toBe(2n);
    expect(await bench.triggers(submitted)).toEqual(['return.updated', 'label.created']);
    const published = (await bench.events(submitted.shopId)).at(-1);
    expect(published?.detail.value).toEqual(label);
    expect(published?.snapshot).toEqual(after);
  });

  test('returns the same label for the same key, and rejects the key with other content', async () => {
    const submitted = await bench.submit(await bench.shop());
    const asked = request(submitted);
    const [first, again] = await Promise.all([
      bench.client.recordLabel(asked),
      bench.client.recordLabel(asked),
    ]);
    expect(again).toEqual(first);
    expect((await bench.read(submitted)).labels).toHaveLength(1);
    expect(await refusal(bench.client.recordLabel({ ...asked, carrier: 'Evri' }))).toEqual({
      code: Code.AlreadyExists,
      reason: 'IDEMPOTENCY_CONFLICT',
      field: 'idempotency_key',
    });
  });

  test('keeps labels oldest first, also one that was bought earlier', async () => {
    const submitted = await bench.submit(await bench.shop());
    const later = await record(submitted);
    const earlier = await record(submitted, { createdAt: ago(40), rate: '' });
    expect((await bench.read(submitted)).labels).toEqual([earlier, later]);
    expect(earlier).toMatchObject({ rate: '', rateMinor: 0n });
  });

  test('rejects invalid fields', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect(await refused(submitted, { carrier: '' })).toEqual(invalid('carrier'));
    expect(await refused(submitted, { rate: '1.234' })).toEqual(invalid('rate'));
    expect(await refused(submitted, { createdAt: ago(-1) })).toEqual(invalid('created_at'));
    expect(await refused(submitted, { lineItemIds: [1n << 40n] })).toEqual({
      ...notFound('LINE_ITEM'),
      field: 'line_item_ids',
    });
    expect(await refused(submitted, { returnId: 999_999_998n })).toEqual(notFound('RETURN'));
  });

  test.each(['closed', 'cancelled'] as const)('rejects a %s return', async (state) => {
    const submitted = await bench.submit(await bench.shop());
    await bench.end(submitted, state);
    expect(await refused(submitted, {})).toEqual(stateForbids);
  });

  test.each([
    [LabelStatus.NEW, ReturnState.EXPIRED],
    [LabelStatus.PRE_TRANSIT, ReturnState.EXPIRED],
    [LabelStatus.ERROR, ReturnState.EXPIRED],
    [LabelStatus.IN_TRANSIT, ReturnState.OPEN],
    [LabelStatus.OUT_FOR_DELIVERY, ReturnState.OPEN],
    [LabelStatus.DELIVERED, ReturnState.OPEN],
  ])('with status %s leaves an expired return in state %s', async (status, state) => {
    const submitted = await bench.submit(await bench.shop());
    await bench.end(submitted, 'expired');
    await record(submitted, { status });
    expect((await bench.read(submitted)).state).toBe(state);
  });
});

describe('update label', () => {
  async function labelled() {
    const submitted = await bench.submit(await bench.shop());
    const label = await record(submitted, { createdAt: ago(10) });
    const update = (more: Omit<Parameters<typeof bench.client.updateLabel>[0], '$typeName'>) =>
      bench.client.updateLabel({ shopId: submitted.shopId, actor, labelId: label.id, ...more });
    return { submitted, label, update };
  }

  test('applies states in any order, as long as each update is newer', async () => {
    const { submitted, update } = await labelled();
    await update({ status: LabelStatus.IN_TRANSIT, occurredAt: ago(5) });
    const { label, ignored } = await update({
      status: LabelStatus.PRE_TRANSIT,
      occurredAt: ago(4),
      trackingNumber: 'RM2',
    });
    expect(ignored).toBe(false);
    expect(label).toMatchObject({ status: LabelStatus.PRE_TRANSIT, trackingNumber: 'RM2' });
    expect(present(label).updatedAt).toEqual(ago(4));
    expect((await bench.triggers(submitted)).slice(2)).toEqual([
      'return.updated',
      'label.updated',
      'return.updated',
      'label.updated',
    ]);
  });

  test('ignores an older update and returns the label as it is', async () => {
    const { submitted, update } = await labelled();
    const first = await update({ status: LabelStatus.IN_TRANSIT, occurredAt: ago(5) });
    const older = await update({ status: LabelStatus.ERROR, occurredAt: ago(6) });
    expect(older).toMatchObject({ ignored: true, label: first.label });
    expect(await bench.triggers(submitted)).toHaveLength(4);
  });

  test('applies a first update in whole seconds, also of the second in which the label was made', async () => {
    const submitted = await bench.submit(await bench.shop());
    const createdAt = timestampFromDate(new Date(Math.trunc(Date.now() / 1_000) * 1_000 - 1));
    const label = await record(submitted, { createdAt });
    const { ignored } = await bench.client.updateLabel({
      shopId: submitted.shopId,
      actor,
      labelId: label.id,
      status: LabelStatus.IN_TRANSIT,
      occurredAt: { seconds: createdAt.seconds, nanos: 0 },
    });
    expect(ignored).toBe(false);
  });

  test('applies what the carrier saw before the label was recorded here', async () => {
    const submitted = await bench.submit(await bench.shop());
    await bench.end(submitted, 'expired');
    const { id: labelId } = await record(submitted);
    const { shopId } = submitted;
    const update = (status: LabelStatus, days: number) =>
      bench.client.updateLabel({ shopId, actor, labelId, status, occurredAt: ago(days) });
    const first = await update(LabelStatus.IN_TRANSIT, 5);
    expect(first).toMatchObject({ ignored: false, label: { status: LabelStatus.IN_TRANSIT } });
    expect((await bench.read(submitted)).state).toBe(ReturnState.OPEN);
    expect((await update(LabelStatus.PRE_TRANSIT, 6)).ignored).toBe(true);
  });

  test('ignores what is older than the status with which the label was recorded', async () => {
    const submitted = await bench.submit(await bench.shop());
    const { id: labelId } = await record(submitted, { status: LabelStatus.IN_TRANSIT });
    const older = { status: LabelStatus.PRE_TRANSIT, occurredAt: ago(1) };
    const { shopId } = submitted;
    expect(await bench.client.updateLabel({ shopId, actor, labelId, ...older })).toMatchObject({
      ignored: true,
      label: { status: LabelStatus.IN_TRANSIT },
    });
  });

  test('applies an update without a time, although another process has a clock that is ahead', async () => {
    const { submitted, label, update } = await labelled();
    await update({ status: LabelStatus.IN_TRANSIT });
    const ahead = "update labels set heard_at = now() + interval '1 minute' where shop_id = $1";
    await bench.db.pool.query(ahead, [submitted.shopId]);
    const next = await update({ status: LabelStatus.OUT_FOR_DELIVERY });
    expect(next).toMatchObject({ ignored: false, label: { id: label.id } });
    expect(next.label?.status).toBe(LabelStatus.OUT_FOR_DELIVERY);
    expect(await update({ status: LabelStatus.ERROR, occurredAt: ago(0) })).toMatchObject({
      ignored: true,
    });
  });

  test('ignores everything after delivery', async () => {
    const { update } = await labelled();
    await update({ status: LabelStatus.DELIVERED, occurredAt: ago(5) });
    const after = await update({ status: LabelStatus.FAILURE, occurredAt: ago(1) });
    expect(after.ignored).toBe(true);
    expect(after.label?.status).toBe(LabelStatus.DELIVERED);
  });

  test('publishes nothing for an update that changes nothing', async () => {
    const { submitted, update } = await labelled();
    await update({ status: LabelStatus.IN_TRANSIT, occurredAt: ago(5) });
    const same = await update({ status: LabelStatus.IN_TRANSIT, occurredAt: ago(3) });
    expect(same.ignored).toBe(false);
    expect(present(same.label?.updatedAt)).toEqual(ago(5));
    expect(await bench.triggers(submitted)).toHaveLength(4);
    const between = await update({ status: LabelStatus.ERROR, occurredAt: ago(4) });
    expect(between.ignored).toBe(true);
  });

  test('applies an update of an ended return', async () => {
    const { submitted, update } = await labelled();
    await bench.end(submitted, 'closed');
    const { label } = await update({ status: LabelStatus.DELIVERED });
    expect(label?.status).toBe(LabelStatus.DELIVERED);
    expect((await bench.triggers(submitted)).slice(-2)).toEqual([
      'return.updated',
      'label.updated',
    ]);
    expect(timestampDate(present(label?.updatedAt)).getTime()).toBeLessThanOrEqual(Date.now());
  });

  test('rejects an update from the future and a label that does not exist', async () => {
    const { update } = await labelled();
    const status = LabelStatus.IN_TRANSIT;
    expect(await refusal(update({ status, occurredAt: ago(-1) }))).toEqual(invalid('occurred_at'));
    // The zero time of a program: the update would be ignored, because it is older than the last one.
    const occurredAt = timestampFromDate(new Date(0));
    expect(await refusal(update({ status, occurredAt }))).toEqual(invalid('occurred_at'));
    expect(await refusal(update({ status, labelId: 1n << 40n }))).toEqual(notFound('LABEL'));
  });
});

describe('the lines of a label', () => {
  test('lose a line that an edit removes', async () => {
    const submitted = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    await record(submitted);
    const lineItemId = firstLine(submitted);
    const { return: edited } = await bench.client.editReturn({
      shopId: submitted.shopId,
      actor,
      returnId: submitted.id,
      expectedRevision: 2n,
      changes: [{ lineItemId, remove: true }],
    });
    expect(edited?.labels[0]?.lineItemIds).toEqual([submitted.lineItems[1]?.lineItemId]);
  });
});

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
