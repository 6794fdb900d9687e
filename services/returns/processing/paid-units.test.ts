import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RecordReceiptRequestSchema } from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import { PolicySchema, RefundBasis } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  DispositionOutcome,
  LineOutcome,
  Outcome,
  type Return,
  ReturnMethod,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ApplyAssessmentsRequestSchema,
  EditReturnRequestSchema,
  RestockMode,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { newId, type SubmissionPart } from '../../../test/kit/builders.ts';
import { orderOf, reportRefund } from '../../../test/kit/commerce/inbound.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { mug, ORDER } from '../../../test/kit/services/look-up.ts';
import {
  actor,
  creating,
  destinations,
  eventsOf,
  newLine,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { inspectionsOf, storeOf } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../../commerce/embedded.ts';
import { CommerceFailure, type CommerceProvider } from '../../commerce/provider.ts';
import { paidPartNow } from '../arrivals/paid-part-store.ts';
import { recordReceipt } from '../arrivals/record-receipt.ts';
import { editReturn } from '../edit/edit.ts';
import { applyAssessments } from '../inspections/inspections.ts';
import { insertPolicy } from '../policy/policy-store.ts';

// What processing pays where the policy that judged a return pays the goods that arrived.

let db: TestDatabase;
let commerce: EmbeddedCommerce;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());

const THREE = { ...newLine(), quantity: 3, price: { shop: '10.00' } };

/** A return that a policy with this basis judged: of three units for 10.00 together, unless `more` overrides it. */
async function judged(
  more: SubmissionPart = {},
  o: {
    readonly policy?: MessageInitShape<typeof PolicySchema>;
    readonly restockMode?: RestockMode;
  } = {},
): Promise<Return> {
  const { restockMode = RestockMode.OFF } = o;
  const shopId = await newShop(db.pool, { restockMode });
  const basis = { refundBasis: RefundBasis.ARRIVED };
  const policy = create(PolicySchema, { ...basis, ...o.policy });
  await insertPolicy(db.pool, { shopId, actor, policy, expected: 0n });
  const submitted = await newReturn(db.pool, shopId, { lines: [THREE], ...more });
  await db.pool.query('update returns set policy_version = 1 where shop_id = $1 and id = $2', [
    shopId,
    submitted.id,
  ]);
  return reload(db.pool, submitted);
}

async function receive(of: Return, quantity: number, damagedQuantity = 0): Promise<void> {
  const lineItemId = of.lineItems[0]?.lineItemId ?? 0n;
  const request = create(RecordReceiptRequestSchema, {
    shopId: of.shopId,
    actor,
    idempotencyKey: randomUUID(),
    return: { case: 'returnId', value: of.id },
    items: [{ lineItemId, quantity, damagedQuantity }],
  });
  await recordReceipt({ store: storeOf(db.pool), destinations }, request);
}

let lastId = 0n;

async function assess(of: Return, outcome: DispositionOutcome, quantity?: number): Promise<void> {
  lastId += 1n;
  const lineItemId = of.lineItems[0]?.lineItemId ?? 0n;
  const disposition = { outcome, ...(quantity !== undefined && { quantity }) };
  const assessments = [{ assessmentId: lastId, lineItemId, disposition }];
  const request = { shopId: of.shopId, actor, assessments, withoutReturns: true };
  await applyAssessments(inspectionsOf(db.pool), create(ApplyAssessmentsRequestSchema, request));
}

async function processed(of: Return, provider: CommerceProvider = commerce): Promise<Return> {
  expect(await requestProcessing(db.pool, of)).toMatchObject({ case: 'queued' });
  await runDue(runDeps(db.pool, provider));
  return reload(db.pool, of);
}

const refundsOf = async (of: Return) =>
  (await commerce.ordersOf(of.id)).refunds.map(({ amount }) => amount);

const NOTHING = {
  case: 'refused',
  value: {
    message:
      'The return cannot be processed: nothing of it has arrived undamaged or was accepted in an assessment, and the policy pays only such goods.',
  },
};

describe('a return whose policy pays what arrived', () => {
  test('refunds the share of the undamaged units, as people saw before, and is then worth so much', async () => {
    const of = await judged();
    const now = () => paidPartNow(db.pool, { shopId: of.shopId, returnId: of.id });
    await receive(of, 2, 1);
    expect(await now()).toMatchObject({
      units: { [`${of.lineItems[0]?.lineItemId}`]: 1 },
      totals: { refund: '3.33' },
      presentmentTotals: { refund: '3.33' },
    });
    const closed = await processed(of);
    expect(await refundsOf(of)).toEqual(['3.33']);
    expect(closed).toMatchObject({
      state: ReturnState.CLOSED,
      totals: { returnTotal: '3.33', refund: '3.33', total: '3.33' },
      lineItems: [{ quantity: 3, arrivedQuantity: 2, amounts: { price: '3.33' } }],
    });
    expect(closed.editedAt).toBeDefined();
    expect(await triggersOf(db.pool, of)).toEqual(['return.updated', 'return.closed']);
    expect((await eventsOf(db.pool, of)).at(-1)?.snapshot).toEqual(closed);
  });

  test('is paid when only its announced units are worth more than the merchant left', async () => {
    const of = await judged();
    await receive(of, 1);
    await reportRefund(db.pool, orderOf(of), { quantity: 0, lines: [], amount: '6.67' });
    const { line: id, providerOrderId } = orderOf(of);
    const value = { price: 1_000n, discount: 0n, tax: 0n };
    const line = { ...mug, id, left: { units: 3 }, paid: { shop: value, presentment: value } };
    const currencies = { shop: 'GBP', presentment: 'GBP' };
    const lookUp = async () => ({ ...ORDER, id: providerOrderId, currencies, lines: [line] });
    await processed(of, { ...commerce, lookUp });
    expect(await refundsOf(of)).toEqual(['3.33']);
  });

  test('is paid after an edit mixed the outcomes of its line items', async () => {
    const fees = [{ outcome: Outcome.REFUND, fee: { case: 'percentage' as const, value: '10' } }];
    const policy = { refundBasis: RefundBasis.ARRIVED, fees };
    const of = await judged({ lines: [THREE, newLine()] }, { policy });
    const [, line] = of.lineItems;
    const changes = [{ lineItemId: line?.lineItemId ?? 0n, outcome: LineOutcome.CREDIT }];
    const edit = { shopId: of.shopId, actor, returnId: of.id, changes };
    await editReturn(
      storeOf(db.pool),
      create(EditReturnRequestSchema, { ...edit, expectedRevision: of.revision }),
    );
    await receive(of, 1);
    const { shopId, id: returnId } = of;
    expect(await paidPartNow(db.pool, { shopId, returnId })).toMatchObject({
      totals: { refund: '3.33' },
    });
  });

  test('is paid as announced when everything arrived, and was not edited', async () => {
    const of = await judged();
    await receive(of, 3);
    expect(await paidPartNow(db.pool, { shopId: of.shopId, returnId: of.id })).toBeUndefined();
    const closed = await processed(of);
    expect(await refundsOf(of)).toEqual(['10.00']);
    expect(closed.totals).toEqual(of.totals);
    expect(closed.editedAt).toBeUndefined();
  });

  test('is rejected while nothing arrived, and paid once a person accepts it', async () => {
    const of = await judged();
    expect(await requestProcessing(db.pool, of)).toMatchObject(NOTHING);
    await receive(of, 1, 1);
    expect(await requestProcessing(db.pool, of)).toMatchObject(NOTHING);
    await assess(of, DispositionOutcome.MISSING);
    expect(await requestProcessing(db.pool, of)).toMatchObject(NOTHING);
    await assess(of, DispositionOutcome.RECYCLE, 2);
    await processed(of);
    expect(await refundsOf(of)).toEqual(['6.66']);
  });

  test('needs no arrival for goods that the shopper keeps', async () => {
    const of = await judged({ returnMethod: ReturnMethod.KEEP_ITEM });
    await processed(of);
    expect(await refundsOf(of)).toEqual(['10.00']);
  });

  test('restocks the units that it pays, without those of another disposition', async () => {
    const of = await judged({}, { restockMode: RestockMode.WEBHOOK });
    await receive(of, 3, 1);
    await assess(of, DispositionOutcome.RECYCLE, 1);
    await processed(of);
    expect(await refundsOf(of)).toEqual(['10.00']);
    const restock = (await eventsOf(db.pool, of)).find(
      ({ trigger }) => trigger === 'restock.requested',
    );
    expect(restock?.detail).toMatchObject({ value: { items: [{ quantity: 2 }] } });
  });

  test('takes the fee of the policy for the goods that it pays', async () => {
    const amounts = { handlingFee: { shop: '1.00' } };
    const fees = [{ fee: { case: 'percentage' as const, value: '10' } }];
    const of = await judged({ amounts }, { policy: { fees } });
    await receive(of, 1);
    const closed = await processed(of);
    expect(closed.totals).toMatchObject({ handlingFee: '0.33', refund: '3.00' });
  });

  test('keeps a fee that a person has set', async () => {
    const amounts = { handlingFee: { shop: '2.50' } };
    const fees = [{ fee: { case: 'percentage' as const, value: '10' } }];
    const of = await judged({ amounts }, { policy: { fees } });
    await receive(of, 1);
    const closed = await processed(of);
    expect(closed.totals).toMatchObject({ handlingFee: '2.50', refund: '0.83' });
  });

  test('makes no exchange that the shopper would have to pay', async () => {
    const price = { shop: '10.00' };
    const of = await judged({
      outcome: Outcome.EXCHANGE,
      exchanges: [{ variantId: 9n, title: 'Hat', price }],
      amounts: { returnCredit: { shop: '10.00' } },
    });
    await receive(of, 2);
    expect((await processed(of)).state).toBe(ReturnState.OPEN);
    const failed = (await eventsOf(db.pool, of)).at(-1);
    expect(failed?.detail.value).toMatchObject({
      message: expect.stringContaining('worth less than the exchange needs'),
    });
    await receive(of, 1);
    expect((await processed(of)).state).toBe(ReturnState.CLOSED);
  });

  test('pays in a later run what arrived in the meantime, unless something was requested', async () => {
    const of = await judged();
    await receive(of, 1);
    const rejecting = creating(commerce, 'refund', () =>
      Promise.reject(new CommerceFailure('final', 'no')),
    );
    expect((await processed(of, rejecting)).state).toBe(ReturnState.OPEN);
    await receive(of, 1);
    await processed(of);
    expect(await refundsOf(of)).toEqual(['6.66']);
  });

  test('pays no unit that arrived after its money was requested', async () => {
    const of = await judged({}, { restockMode: RestockMode.PROVIDER });
    await receive(of, 1);
    const rejecting = creating(commerce, 'restock', () =>
      Promise.reject(new CommerceFailure('final', 'no')),
    );
    expect((await processed(of, rejecting)).state).toBe(ReturnState.OPEN);
    expect(await refundsOf(of)).toEqual(['3.33']);
    await receive(of, 2);
    const closed = await processed(of);
    expect(closed.totals).toMatchObject({ refund: '3.33' });
    expect((await commerce.ordersOf(of.id)).refunds).toMatchObject([{ calls: 1 }]);
  });

  test('counts for other returns only the units that it refunded', async () => {
    const providerLineItemId = newId();
    const units = (quantity: number) => ({
      lines: [{ ...THREE, providerLineItemId, quantity, orderedQuantity: 3 }],
    });
    const of = await judged(units(3));
    await receive(of, 1);
    await processed(of);
    await expect(newReturn(db.pool, of.shopId, units(3))).rejects.toThrow('3 units were ordered');
    const next = await newReturn(db.pool, of.shopId, units(2));
    expect(next.lineItems[0]?.quantity).toBe(2);
  });

  test('can be returned again when the ordered units are not known and not all were refunded', async () => {
    const lines = [{ ...THREE, providerLineItemId: newId(), refundItem: { shop: '10.00' } }];
    const of = await judged({ lines });
    await receive(of, 1);
    await processed(of);
    expect((await newReturn(db.pool, of.shopId, { lines })).state).toBe(ReturnState.OPEN);
  });
});

test.each([undefined, RefundBasis.ANNOUNCED])(
  'a return whose policy has the basis %s is paid as announced',
  async (refundBasis) => {
    const policy = { refundBasis: refundBasis ?? RefundBasis.UNSPECIFIED };
    const of = await judged({}, { policy });
    await receive(of, 1);
    await processed(of);
    expect(await refundsOf(of)).toEqual(['10.00']);
  },
);
