import { randomUUID } from 'node:crypto';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  CustomerUpload_Kind,
  DispositionOutcome,
  LabelStatus,
  type Return,
  ReturnMethod,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  InstantRefundState,
  LabelProvider,
  ReturnsService,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  firstLine,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
/** The objects of one shop, and the other shop, which requests them. */
let theirs: {
  of: Return;
  lineItemId: bigint;
  labelId: bigint;
  requestId: bigint;
  creditId: bigint;
};
let asker: { shopId: bigint; actor: typeof actor };

beforeAll(async () => {
  bench = await startReturnsBench();
  asker = { shopId: await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY }), actor };
  const shopId = await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY });
  const of = await bench.submit(shopId, {
    returnMethod: ReturnMethod.DROP_OFF,
    customer: { email: 'theirs@example.com' },
  });
  const by = { shopId, actor, returnId: of.id, idempotencyKey: 'k' };
  const { label } = await bench.client.recordLabel({ ...by, carrier: 'DHL' });
  const { labelRequest } = await bench.client.requestLabel(by);
  const { credit } = await bench.client.openInstantRefund({
    ...by,
    amount: '1.00',
    chargeReference: 'c',
  });
  theirs = {
    of,
    lineItemId: firstLine(of),
    labelId: present(label).id,
    requestId: present(labelRequest).id,
    creditId: present(credit).id,
  };
});
afterAll(() => bench.stop());

const key = () => ({ ...asker, idempotencyKey: randomUUID() });
const there404: Record<string, () => Promise<unknown>> = {
  editReturn: () => bench.client.editReturn({ ...asked(), expectedRevision: 1n, amounts: {} }),
  flagReturn: () => bench.client.flagReturn({ ...asked(), reasons: ['x'] }),
  unflagReturn: () => bench.client.unflagReturn(asked()),
  cancelReturn: () => bench.client.cancelReturn(asked()),
  processReturn: () => bench.client.processReturn(asked()),
  recordGiftCard: () =>
    bench.client.recordGiftCard({
      ...asked(),
      ...key(),
      providerOrderId: 7n,
      amount: '8.00',
      currency: 'GBP',
    }),
  recordLabel: () => bench.client.recordLabel({ ...asked(), ...key(), carrier: 'DHL' }),
  updateLabel: () =>
    bench.client.updateLabel({
      ...asker,
      labelId: theirs.labelId,
      status: LabelStatus.DELIVERED,
    }),
  requestLabel: () => bench.client.requestLabel(asked()),
  cancelLabelRequest: () =>
    bench.client.cancelLabelRequest({ ...asker, requestId: theirs.requestId }),
  recordArrival: () => bench.client.recordArrival({ ...asker, lineItemIds: [theirs.lineItemId] }),
  recordPartnerShipment: () =>
    bench.client.recordPartnerShipment({
      ...asker,
      partnerShipmentId: randomUUID(),
      lineItemIds: [theirs.lineItemId],
    }),
  openInstantRefund: () =>
    bench.client.openInstantRefund({ ...asked(), ...key(), amount: '1', chargeReference: 'c' }),
  settleInstantRefund: () =>
    bench.client.settleInstantRefund({
      ...asker,
      creditId: theirs.creditId,
      result: InstantRefundState.RETURNED,
    }),
  addCustomerUpload: () =>
    bench.client.addCustomerUpload({
      ...asker,
      lineItemId: theirs.lineItemId,
      kind: CustomerUpload_Kind.IMAGE,
      url: 'https://x.example/1',
    }),
  addNote: () => bench.client.addNote({ ...asked(), text: 'x' }),
  getSnapshot: () => bench.client.getSnapshot({ ...asked(), revision: 1n }),
  findReturn: () =>
    bench.client.findReturn({ ...asker, selector: { case: 'returnId', value: theirs.of.id } }),
  checkReturn: () => bench.client.checkReturn(asked()),
  getTimeline: () => bench.client.getTimeline(asked()),
  applyAssessments: () =>
    bench.client.applyAssessments({
      ...asker,
      assessments: [
        {
          assessmentId: 1n,
          lineItemId: theirs.lineItemId,
          disposition: { outcome: DispositionOutcome.DONATE },
        },
      ],
    }),
  applyGradings: () =>
    bench.client.applyGradings({
      ...asker,
      gradings: [
        {
          gradingId: 1n,
          lineItemId: theirs.lineItemId,
          condition: { subject: 'item', title: 'Junk', categoryName: 'junk' },
        },
      ],
    }),
};

function asked() {
  return { ...asker, returnId: theirs.of.id };
}

/** All published events about the returns above. */
function lately() {
  const triggers = ['return.created', 'return.updated', 'label.created'];
  const at = (ms: number) => timestampFromDate(new Date(Date.now() + ms));
  return { triggers, from: at(-3_600_000), to: at(3_600_000) };
}

/** Calls whose response must not contain data of the other shop. */
const answersNothing: Record<string, () => Promise<unknown>> = {
  getReturns: async () =>
    (await bench.client.getReturns({ ...asker, returnIds: [theirs.of.id] })).returns,
  findReturns: async () => {
    const { id, order } = theirs.of;
    const { id: orderId, name } = present(order);
    const selectors = [
      { selector: { case: 'returnId', value: id } },
      { selector: { case: 'orderId', value: orderId } },
      { selector: { case: 'orderName', value: name } },
    ] as const;
    return (await bench.client.findReturns({ ...asker, selectors: [...selectors] })).found;
  },
  checkLineItems: async () =>
    (await bench.client.checkLineItems({ ...asker, lineItemIds: [theirs.lineItemId] })).owners,
  readEvents: async () => (await bench.client.readEvents({ ...asker, ...lately() })).events,
  countEvents: async () => (await bench.client.countEvents({ ...asker, ...lately() })).count || [],
  searchReturns: async () => {
    const all = { ...asker, includeArchived: true };
    const { returns } = await bench.client.searchReturns(all);
    const { summaries } = await bench.client.searchReturns({ ...all, summaries: true });
    return [...returns, ...summaries];
  },
  summarize: async () => (await bench.client.summarize(asker)).byState,
  redactCustomer: async () =>
    (await bench.client.redactCustomer({ ...asker, email: 'theirs@example.com' })).returns || [],
  sweepExpired: async () => (await bench.client.sweepExpired(asker)).expired || [],
};

/** Calls without an id of an object. Their own tests cover them. */
const NAMELESS = ['submitReturn', 'getSettings', 'updateSettings'];

describe('another shop’s objects', () => {
  test('are in the requests of every call of the service', () => {
    const tested = [...Object.keys(there404), ...Object.keys(answersNothing), ...NAMELESS];
    expect(tested.sort()).toEqual(ReturnsService.methods.map((one) => one.localName).sort());
  });

  test.each(Object.keys(there404))('do not exist for %s', async (call) => {
    const ask = present(there404[call]);
    expect(await refusal(ask())).toMatchObject({ code: Code.NotFound });
  });

  test.each(Object.keys(answersNothing))('are not in the response of %s', async (call) => {
    expect(await present(answersNothing[call])()).toEqual([]);
  });

  test('are unchanged after all of these calls', async () => {
    expect((await bench.triggers(theirs.of)).length).toBe(3);
    const now = await bench.read(theirs.of);
    expect(now).toMatchObject({ revision: 2n, customer: { email: 'theirs@example.com' } });
  });
});
