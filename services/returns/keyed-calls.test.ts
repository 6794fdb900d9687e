import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  CustomerUpload_Kind,
  LabelRequest_State,
  LabelStatus,
  type Return,
  ReturnMethod,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  firstLine,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const KEY = { idempotencyKey: 'k-1' };

/** A return of a shop whose labels a third party makes, without a label request. */
async function dropOff(): Promise<Return> {
  const shopId = await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY });
  return bench.submit(shopId, { returnMethod: ReturnMethod.DROP_OFF });
}

const about = (of: Return) => ({ shopId: of.shopId, actor, returnId: of.id });

async function labelOf(of: Return): Promise<bigint> {
  const wish = { idempotencyKey: 'label', carrier: 'DHL', createdAt: at(-9) };
  return present((await bench.client.recordLabel({ ...about(of), ...wish })).label).id;
}

const NOW = Date.now();
const at = (minutes: number) => timestampFromDate(new Date(NOW + minutes * 60_000));

/** What a shop's return has published and recorded. */
const traces = async (of: Return) => [await bench.triggers(of), await bench.timeline(of)];

/** For each RPC: a call with a key, and one with the key and other content, about a new return. */
const CALLS = {
  editReturn: async (of: Return) => {
    const edit = (reason: string) =>
      bench.client.editReturn({
        ...about(of),
        ...KEY,
        expectedRevision: of.revision,
        changes: [{ lineItemId: firstLine(of), reason }],
      });
    return { call: () => edit('Too small'), other: () => edit('Too large') };
  },
  updateLabel: async (of: Return) => {
    const labelId = await labelOf(of);
    const update = (status: LabelStatus) =>
      bench.client.updateLabel({ shopId: of.shopId, actor, labelId, status, ...KEY });
    return {
      call: () => update(LabelStatus.IN_TRANSIT),
      other: () => update(LabelStatus.DELIVERED),
    };
  },
  requestLabel: async (of: Return) => ({
    call: () => bench.client.requestLabel({ ...about(of), ...KEY }),
    other: async () => {
      const second = await bench.submit(of.shopId, { returnMethod: ReturnMethod.DROP_OFF });
      return bench.client.requestLabel({ ...about(second), ...KEY });
    },
  }),
  cancelLabelRequest: async (of: Return) => {
    const { labelRequest } = await bench.client.requestLabel(about(of));
    const cancel = (requestId: bigint) =>
      bench.client.cancelLabelRequest({ shopId: of.shopId, actor, requestId, ...KEY });
    const { id } = present(labelRequest);
    return { call: () => cancel(id), other: () => cancel(id + 1n) };
  },
  recordArrival: async (of: Return) => {
    const arrive = (returnedAt: ReturnType<typeof at>) =>
      bench.client.recordArrival({
        shopId: of.shopId,
        actor,
        lineItemIds: [firstLine(of)],
        returnedAt,
        ...KEY,
      });
    return { call: () => arrive(at(-5)), other: () => arrive(at(-4)) };
  },
  addCustomerUpload: async (of: Return) => {
    const add = (url: string) =>
      bench.client.addCustomerUpload({
        shopId: of.shopId,
        actor,
        lineItemId: firstLine(of),
        kind: CustomerUpload_Kind.IMAGE,
        url,
        ...KEY,
      });
    return {
      call: () => add('https://img.example.com/1.png'),
      other: () => add('https://img.example.com/2.png'),
    };
  },
};

describe.each(Object.entries(CALLS))('%s with a key', (_, prepare) => {
  test('has one effect in a race and for a repeat, with the same response', async () => {
    const submitted = await dropOff();
    const { call, other } = await prepare(submitted);
    const before = await bench.timeline(submitted);
    const [first, second] = await Promise.all([call(), call()]);
    const after = await traces(submitted);
    expect(after[1]).toHaveLength(before.length + 1);
    expect(second).toEqual(first);
    expect(await call()).toEqual(first);
    expect(await refusal(other())).toMatchObject({
      reason: 'IDEMPOTENCY_CONFLICT',
      field: 'idempotency_key',
    });
    expect(await traces(submitted)).toEqual(after);
  });
});

describe('a repeat after later changes', () => {
  test('sets no earlier status of a label', async () => {
    const submitted = await dropOff();
    const labelId = await labelOf(submitted);
    const update = (status: LabelStatus, key = '') =>
      bench.client.updateLabel({
        shopId: submitted.shopId,
        actor,
        labelId,
        status,
        idempotencyKey: key,
      });
    await update(LabelStatus.IN_TRANSIT, 'k-1');
    await update(LabelStatus.OUT_FOR_DELIVERY);
    const { label, ignored } = await update(LabelStatus.IN_TRANSIT, 'k-1');
    expect([label?.status, ignored]).toEqual([LabelStatus.OUT_FOR_DELIVERY, false]);
  });

  test('also returns that an update was ignored', async () => {
    const submitted = await dropOff();
    const labelId = await labelOf(submitted);
    const late = () =>
      bench.client.updateLabel({
        shopId: submitted.shopId,
        actor,
        labelId,
        status: LabelStatus.IN_TRANSIT,
        occurredAt: at(-10),
        ...KEY,
      });
    expect((await late()).ignored).toBe(true);
    expect((await late()).ignored).toBe(true);
  });

  test('requests no second label', async () => {
    const submitted = await dropOff();
    const ask = () => bench.client.requestLabel({ ...about(submitted), ...KEY });
    const { labelRequest } = await ask();
    await labelOf(submitted);
    expect((await ask()).labelRequest).toEqual({
      ...labelRequest,
      state: LabelRequest_State.FULFILLED,
    });
  });
});
