import { randomInt, randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import {
  AutomaticProcessing_Moment as Moment,
  RefundBasis,
  ReturnWindow_Start as Start,
  WithdrawalHandling,
} from '../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome, ReturnMethod } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Received, Sent } from '../kit/gateway/rest-client.ts';
import { callIn, journeyForTests, untilState } from '../kit/journeys/journey.ts';

// From an order to a refunded return, with the real services and the sample orders of the demo.

const journey = journeyForTests();

const keyOf = (name: string): Partial<Sent> => ({
  key: journey.stack.shop.api_keys[name] ?? '',
});
const STOREFRONT = () => keyOf('returns:submit');

/** An order that no other test has: two mugs, a scarf and a gift card. */
const newOrder = () => `#T10-${randomInt(1_000, 1_000_000)}`;

interface Line {
  readonly provider_line_item_id: number;
  readonly returnable_quantity: number;
  readonly reasons: readonly { readonly code: string }[];
}

async function eligibility(order: string): Promise<Line[]> {
  const path = `/api/2026-10/orders/eligibility?order_name=${encodeURIComponent(order)}`;
  const { status, body } = await journey.send({ path, ...STOREFRONT() });
  expect(status).toBe(200);
  return (body as { lines: Line[] }).lines;
}

function submit(
  json: object,
  o: Partial<Sent> = {},
  key: string = randomUUID(),
): Promise<Received> {
  const headers = { 'idempotency-key': key };
  return journey.send({ path: '/api/2026-10/returns', json, headers, ...STOREFRONT(), ...o });
}

test('a storefront submits what may come back, once, and it is refunded', async () => {
  const order = newOrder();
  const [mug, , card] = await eligibility(order);
  expect([mug?.returnable_quantity, card?.reasons.map(({ code }) => code)]).toEqual([
    2,
    expect.arrayContaining(['NOT_A_PRODUCT']),
  ]);
  const items = [{ provider_line_item_id: mug?.provider_line_item_id, quantity: 1 }];
  const body = { order_name: order, email: 'SHOPPER@example.com', items };
  const key = randomUUID();
  const made = await submit(body, {}, key);
  expect(made).toMatchObject({ status: 201, body: { state: 'open', refund: '12.00' } });
  const { id } = made.body as { id: number };
  expect(await submit(body, {}, key)).toMatchObject({ status: 200, body: { id } });
  const other = { ...body, items: [{ ...items[0], quantity: 2 }] };
  expect(await submit(other, {}, key)).toMatchObject({
    status: 409,
    body: { errors: { code: 'IDEMPOTENCY_KEY_REUSED' } },
  });
  const [after] = await eligibility(order);
  expect(after).toMatchObject({ returnable_quantity: 1, reasons: [{ code: 'IN_OPEN_RETURN' }] });
  const path = String(made.headers.location);
  expect(await journey.send({ path, ...STOREFRONT() })).toMatchObject({
    status: 200,
    body: { id },
  });
  const process = { method: 'POST', path: `/api/2026-10/warehouse/return/${id}/process` };
  expect((await journey.send({ ...process, ...keyOf('returns') })).body).toBe(true);
  await untilState(journey, id, 'closed');
  expect((await eligibility(order))[0]?.reasons).toMatchObject([{ code: 'ALREADY_RETURNED' }]);
});

test('200 submissions at once for the last unit make one return', async () => {
  const order = newOrder();
  const [, scarf] = await eligibility(order);
  const items = [{ provider_line_item_id: scarf?.provider_line_item_id, quantity: 1 }];
  const all = await Promise.all(
    Array.from({ length: 200 }, () => submit({ order_name: order, items }, keyOf('all'))),
  );
  const statuses = all.map(({ status }) => status);
  expect(statuses.filter((status) => status === 201)).toHaveLength(1);
  // Under load some may be asked to come back.
  expect(statuses.every((status) => [201, 422, 429, 503].includes(status))).toBe(true);
  const path = `/api/2026-10/warehouse/returns?query=${encodeURIComponent(order)}`;
  const { body } = await journey.send({ path, ...keyOf('returns') });
  expect((body as { returns: object[] }).returns).toHaveLength(1);
});

test('of two submissions at once for the last unit one is a 201, and the other a 422 that says why', async () => {
  // Several orders, so that the calls also meet between the check and the write.
  for (const order of Array.from({ length: 5 }, newOrder)) {
    const [, scarf] = await eligibility(order);
    const { provider_line_item_id } = scarf ?? {};
    const json = { order_name: order, items: [{ provider_line_item_id, quantity: 1 }] };
    const both = await Promise.all([submit(json), submit(json)]);
    const lines = [{ provider_line_item_id, code: 'IN_OPEN_RETURN' }];
    const errors = { code: 'NOT_ELIGIBLE', message: expect.any(String), lines };
    expect(both.toSorted((a, b) => a.status - b.status)).toMatchObject([
      { status: 201, body: { order_name: order } },
      { status: 422, body: { errors } },
    ]);
  }
});

test('an order of nobody and a wrong e-mail address have the same response', async () => {
  const order = newOrder();
  const [mug] = await eligibility(order);
  const items = [{ provider_line_item_id: mug?.provider_line_item_id, quantity: 1 }];
  const wrong = await submit({ order_name: order, email: 'bob@example.com', items });
  const nobodys = await submit({ order_name: '#nobodys', items });
  expect([wrong.status, wrong.text]).toEqual([404, nobodys.text]);
});

test('only a credential with the scope returns overrides the policy', async () => {
  const order = newOrder();
  const [mug] = await eligibility(order);
  const items = [{ provider_line_item_id: mug?.provider_line_item_id, quantity: 1 }];
  const body = { order_name: order, items, override_policy: true };
  expect(await submit(body)).toMatchObject({
    status: 422,
    body: { message: 'override_policy needs a credential with the scope returns.', errors: {} },
  });
  const { status, body: made } = await submit(body, keyOf('returns'));
  expect(status).toBe(201);
  const { id } = made as { id: number };
  const path = `/api/2026-10/returns/${id}/timeline`;
  const { text } = await journey.send({ path, ...keyOf('returns') });
  expect(text).toContain('policy was not allowed to refuse it');
});

test('a storefront reads every part of the policy of its shop, as it is in force', async () => {
  const { otherShop: shop } = journey.stack;
  const { version } = await journey.services.returns.updatePolicy({
    ...callIn(shop),
    policy: {
      window: { days: 30, from: Start.FULFILLED },
      finalSale: { productIds: [4_001n], skus: ['SOCKS-*'], tags: ['final'] },
      exceptions: [
        {
          items: { productIds: [4_002n], skus: ['COAT-1'], tags: ['winter'] },
          window: { days: 100, from: Start.ORDERED },
          outcomes: [Outcome.EXCHANGE],
        },
      ],
      countries: ['AT', 'DE'],
      outcomes: [Outcome.REFUND, Outcome.CREDIT],
      returnMethods: [ReturnMethod.MAIL, ReturnMethod.DROP_OFF],
      reasons: [
        { code: 'size', label: { en: 'Size' } },
        {
          ...{ code: 'too_small', parent: 'size', label: { de: 'Zu klein', en: 'Too small' } },
          ...{ asksComment: true, waivesFee: true },
        },
      ],
      fees: [
        { returnMethod: ReturnMethod.MAIL, fee: { case: 'amount', value: '5' } },
        { outcome: Outcome.REFUND, fee: { case: 'percentage', value: '2.5' } },
      ],
      review: {
        ...{ valueAbove: '500', reasons: ['too_small'], returnsAbove: 3, returnsDays: 90 },
        ...{ fraudReport: true, missing: true },
      },
      process: { moment: Moment.GRADED, upTo: '200' },
      refundBasis: RefundBasis.ARRIVED,
      withdrawals: WithdrawalHandling.RETURN,
    },
  });
  const key = shop.api_keys['returns:submit'] ?? '';
  const { status, body } = await journey.send({ path: '/api/2026-10/policy', key });
  expect([status, body]).toEqual([
    200,
    {
      version: Number(version),
      updated_at: expect.stringMatching(/^\d{4}-.*\+00:00$/),
      window: { days: 30, from: 'fulfilled' },
      final_sale: { product_ids: [4_001], skus: ['SOCKS-*'], tags: ['final'] },
      exceptions: [
        {
          ...{ product_ids: [4_002], skus: ['COAT-1'], tags: ['winter'] },
          ...{ window: { days: 100, from: 'ordered' }, outcomes: ['exchange'] },
        },
      ],
      countries: ['AT', 'DE'],
      outcomes: ['refund', 'credit'],
      return_methods: ['mail', 'drop_off'],
      reasons: [
        {
          ...{ code: 'size', parent: null, label: { en: 'Size' } },
          ...{ asks_comment: false, waives_fee: false },
        },
        {
          ...{ code: 'too_small', parent: 'size', label: { de: 'Zu klein', en: 'Too small' } },
          ...{ asks_comment: true, waives_fee: true },
        },
      ],
      fees: [
        { return_method: 'mail', outcome: null, amount: '5.00', percentage: null },
        { return_method: null, outcome: 'refund', amount: null, percentage: '2.5' },
      ],
      review: {
        ...{ value_above: '500.00', reasons: ['too_small'], returns_above: 3, returns_days: 90 },
        ...{ fraud_report: true, missing: true },
      },
      process: { moment: 'graded', up_to: '200.00' },
      refund_basis: 'arrived',
      withdrawals: 'return',
    },
  ]);
});
