import { randomUUID } from 'node:crypto';
import type { MessageShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import {
  LineOutcome,
  Outcome,
  PolicyUse,
  ReturnMethod,
  type SubmitReturnRequestSchema,
  UpsellPayment,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { DomainError, invalidField } from '../../services/platform/values/errors.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under.stop());
afterEach(() => under.resetServices());

const VERSIONS = ['v1', '2026-07', '2026-10', 'unstable'];
const failing = (code: Code, reason: ErrorReason) => () => {
  throw new DomainError(code, reason, 'no');
};

describe('eligibility', () => {
  const read = (query: string, version = '2026-10') =>
    send({ path: `/api/${version}/orders/eligibility?${query}` });

  test.each(VERSIONS)('has each line of the order in %s', async (version) => {
    const { status, body } = await read('order_name=%231001', version);
    expect([status, body]).toEqual([
      200,
      {
        order_name: '#1001',
        provider_order_id: 1_000_000_000_005,
        ordered_at: '2026-11-20T10:00:00+00:00',
        currency: 'GBP',
        presentment_currency: 'GBP',
        policy_version: 3,
        outcomes: ['refund', 'credit'],
        return_methods: ['mail'],
        lines: [
          {
            provider_line_item_id: 9001,
            sku: 'MUG-1',
            title: 'Mug',
            variant_title: null,
            image: null,
            ordered_quantity: 2,
            returnable_quantity: 1,
            window_ends_at: '2026-11-20T10:00:00+00:00',
            price: '10.00',
            refund: '12.00',
            outcomes: ['refund'],
            reasons: [{ code: 'IN_OPEN_RETURN', message: 'It is part of another return.' }],
          },
        ],
      },
    ]);
  });

  test('passes on the id of the order, and the e-mail address', async () => {
    const asked: object[] = [];
    under.services.returns.getEligibility = ({ order, email }) => {
      asked.push({ ...order, email });
      throw new DomainError(Code.NotFound, ErrorReason.ORDER_NOT_FOUND, 'no such order');
    };
    const { status, body } = await read('provider_order_id=445&email=ada%40example.com');
    expect([status, body]).toEqual([404, { errors: { message: 'No order was found.' } }]);
    expect(asked).toEqual([{ case: 'providerOrderId', value: 445n, email: 'ada@example.com' }]);
  });

  test.each([
    ['', 'order_name or provider_order_id is required.'],
    ['order_name=%231&provider_order_id=1', 'provider_order_id must not be given together'],
    [`order_name=${'x'.repeat(192)}`, 'order_name must be at most 191 characters.'],
    [`order_name=1&email=${'x'.repeat(321)}`, 'email must be at most 320 characters.'],
    ['order_name=', 'order_name must not be empty'],
  ])('of %j is rejected', async (query, message) => {
    const { status, body } = await read(query);
    expect([status, body]).toEqual([
      422,
      { message: expect.stringContaining(message), errors: {} },
    ]);
  });

  test('of an id that no order can have is the same 404', async () => {
    const { status, body } = await read('provider_order_id=abc');
    expect([status, body]).toEqual([404, { errors: { message: 'No order was found.' } }]);
  });

  test.each([
    [Code.Unavailable, ErrorReason.COMMERCE_FAILED, 503, undefined],
    [Code.FailedPrecondition, ErrorReason.COMMERCE_FAILED, 503, undefined],
    [Code.FailedPrecondition, ErrorReason.NO_ORDER_LOOKUP, 409, 'NO_ORDER_LOOKUP'],
  ])('is a %d of the platform (%#)', async (code, reason, status, publicCode) => {
    under.services.returns.getEligibility = failing(code, reason);
    const response = await read('order_name=1');
    expect(response.status).toBe(status);
    const about =
      publicCode === undefined ? { message: expect.any(String) } : { errors: { code: publicCode } };
    expect(response.body).toMatchObject(about);
  });
});

describe('submit', () => {
  const path = '/api/2026-10/returns';
  const ITEM = { provider_line_item_id: 9001, quantity: 1 };
  const BODY = { order_name: '#1001', items: [ITEM] };
  const submit = (json: object = BODY, key = 'k1', version = '2026-10') =>
    send({ path: `/api/${version}/returns`, json, headers: { 'idempotency-key': key } });

  type Request = MessageShape<typeof SubmitReturnRequestSchema>;
  let asked: Request[];
  beforeEach(() => {
    asked = [];
    const { submitReturn } = under.services.returns;
    under.services.returns.submitReturn = (request, context) => {
      asked.push(request);
      if (!submitReturn) throw new Error('no fake');
      return submitReturn(request, context);
    };
  });

  test.each(VERSIONS)('is a 201 with the details and their place in %s', async (version) => {
    const { status, body, headers } = await submit(BODY, 'k1', version);
    const details = await send({ path: `/api/${version}/warehouse/return/details?return_id=11` });
    expect([status, body]).toEqual([201, details.body]);
    const served = version === 'v1' ? '2026-07' : version;
    expect(headers.location).toBe(`/api/${served}/warehouse/return/details?return_id=11`);
  });

  test('passes everything on, with the key in its own form', async () => {
    await submit({
      provider_order_id: 445,
      email: 'ada@example.com',
      items: [
        { ...ITEM, reason: 'small', comment: 'Hm', outcome: 'exchange', exchange_variant: '5' },
        { sku: 'HAT', quantity: 2 },
      ],
      outcome: 'exchange+refund',
      return_method: 'in_store',
      destination_id: 31,
      type: 'warranty',
      package_reference: 'P1',
      upsell_payment: 'prepaid',
      upsell_payment_reference: 'pay_1',
    });
    expect(asked).toMatchObject([
      {
        idempotencyKey: expect.stringMatching(/^rest:header:/),
        findOrder: true,
        policy: PolicyUse.APPLY,
        order: { name: '', providerOrderId: 445n },
        orderEmail: 'ada@example.com',
        outcome: Outcome.EXCHANGE_REFUND,
        returnMethod: ReturnMethod.IN_STORE,
        destinationId: 31n,
        packageReference: 'P1',
        upsellPayment: UpsellPayment.PREPAID,
        upsellPaymentReference: 'pay_1',
        lines: [
          {
            providerLineItemId: 9001n,
            quantity: 1,
            reason: 'small',
            comment: 'Hm',
            outcome: LineOutcome.EXCHANGE,
            exchangeVariant: '5',
          },
          { providerLineItemId: 0n, sku: 'HAT', quantity: 2 },
        ],
      },
    ]);
  });

  test('needs a key', async () => {
    const { status, body } = await send({ path, json: BODY });
    expect([status, body]).toEqual([422, { message: 'Idempotency-Key is required.', errors: {} }]);
    expect(asked).toEqual([]);
  });

  test('again is a 200 with the same return', async () => {
    const again = { ...BODY, items: [{ ...ITEM, comment: FAKE.repeated }] };
    const { status, body, headers } = await submit(again);
    expect([status, body]).toMatchObject([200, { id: 11 }]);
    expect(headers.location).toContain('return_id=11');
  });

  test('with other content under a used key is a 409', async () => {
    const other = { ...BODY, items: [{ ...ITEM, comment: FAKE.otherContent }] };
    const { status, body } = await submit(other);
    expect([status, body]).toEqual([
      409,
      { errors: { code: 'IDEMPOTENCY_KEY_REUSED', message: expect.stringMatching(/\.$/) } },
    ]);
  });

  test('of lines that cannot be returned names them', async () => {
    const refused = { ...BODY, items: [{ provider_line_item_id: 9003, quantity: 1 }] };
    const { status, body } = await submit(refused);
    const lines = [{ provider_line_item_id: 9003, code: 'WINDOW_ENDED' }];
    const message = 'Order line 9003 cannot be returned.';
    expect([status, body]).toEqual([422, { errors: { code: 'NOT_ELIGIBLE', message, lines } }]);
    const problem = await submit(refused, 'k1', 'unstable');
    expect(problem.body).toMatchObject({
      code: 'NOT_ELIGIBLE',
      errors: [{ field: 'items', message: 'order line 9003: WINDOW_ENDED' }],
    });
  });

  test('of an order that does not exist is the 404 of eligibility', async () => {
    const { status, body } = await submit({ ...BODY, order_name: '#2' });
    expect([status, body]).toEqual([404, { errors: { message: 'No order was found.' } }]);
  });

  test.each([
    [{ items: [ITEM] }, 'order_name or provider_order_id is required.'],
    [{ ...BODY, provider_order_id: 1 }, 'provider_order_id must not be given together'],
    [{ order_name: '#1' }, 'items is required.'],
    [{ ...BODY, items: [] }, 'items must have at least 1 entry.'],
    [
      { ...BODY, items: Array.from({ length: 251 }, () => ITEM) },
      'items must have at most 250 entries.',
    ],
    [{ ...BODY, items: [{ quantity: 1 }] }, 'items[0].provider_line_item_id or sku is required.'],
    [{ ...BODY, items: [{ ...ITEM, quantity: 0 }] }, 'items[0].quantity must be a whole number'],
    [{ ...BODY, items: [{ ...ITEM, outcome: 'upsell' }] }, 'items[0].outcome must be one of'],
    [{ ...BODY, outcome: 'gift' }, 'outcome must be one of exchange, upsell,'],
  ])('rejects the body %j', async (json, message) => {
    const { status, body } = await submit(json);
    expect([status, body]).toMatchObject([422, { message: expect.stringContaining(message) }]);
    expect(asked).toEqual([]);
  });

  test.each([
    ['lines[1].quantity', 'items[1].quantity must be less.'],
    ['order.name', 'order_name must be less.'],
    ['return_method', 'return_method must be less.'],
  ])('names the field %s of the service as the body does', async (field, message) => {
    under.services.returns.submitReturn = () => {
      throw invalidField(field, 'must be less');
    };
    const { status, body } = await submit();
    expect([status, body]).toEqual([422, { message, errors: {} }]);
  });

  test('to a destination that is disabled or does not exist is rejected', async () => {
    under.services.returns.submitReturn = failing(Code.NotFound, ErrorReason.DESTINATION_NOT_FOUND);
    expect((await submit()).body).toMatchObject({
      message: 'destination_id must be the id of a destination.',
    });
    under.services.returns.submitReturn = failing(
      Code.FailedPrecondition,
      ErrorReason.STATE_FORBIDS,
    );
    expect((await submit()).status).toBe(422);
  });

  test('past the policy is recorded in the audit log', async () => {
    const changes = [{ field: 'override_policy', to: 'true' }];
    for (const [json, policy, detail] of [
      [BODY, PolicyUse.APPLY, { phase: 'done' }],
      [{ ...BODY, override_policy: true }, PolicyUse.OVERRIDE, { phase: 'done', changes }],
    ] as const) {
      const requestId = randomUUID();
      const headers = { 'idempotency-key': requestId, 'x-request-id': requestId };
      const { status } = await send({ path, json, headers });
      expect([status, asked.at(-1)?.policy]).toEqual([201, policy]);
      const ended = await until(async () => {
        const { rows } = await under.database.pool.query<{ detail: object }>(
          `select detail from audit_log where request_id = $1 and action = 'rest.submitReturn'
              and detail->>'phase' = 'done'`,
          [requestId],
        );
        return rows[0];
      });
      expect(ended.detail).toMatchObject(detail);
      expect('changes' in ended.detail).toBe('changes' in detail);
    }
  });

  const LINE = {
    provider_line_item_id: 9001,
    sku: 'MUG-1',
    quantity: 3,
    price: { shop: '20.00', presentment: '3100' },
    tax: { shop: '1.00', presentment: '155' },
  };
  const ORDER = {
    name: '#1001',
    provider_order_id: 7,
    currency: 'gbp',
    presentment_currency: 'jpy',
    customer: { email: 'ada@example.com', address: { country_code: 'gb' } },
    lines: [LINE],
  };

  test('with a stated order has its lines, with the share of the units that come back', async () => {
    await submit({ order: ORDER, items: [{ sku: 'MUG-1', quantity: 1, reason: 'small' }] });
    await submit({ order: ORDER });
    const order = { name: '#1001', providerOrderId: 7n };
    const of = {
      findOrder: false,
      statesOrder: true,
      policy: PolicyUse.APPLY,
      order,
      currency: 'GBP',
    };
    const line = { providerLineItemId: 9001n, orderedQuantity: 3 };
    expect(asked).toMatchObject([
      {
        ...of,
        presentmentCurrency: 'JPY',
        customer: { email: 'ada@example.com', address: { countryCode: 'gb' } },
        lines: [
          {
            ...line,
            quantity: 1,
            reason: 'small',
            price: { shop: '6.67', presentment: '1034' },
            tax: { shop: '0.33', presentment: '51' },
          },
        ],
      },
      { ...of, lines: [{ ...line, quantity: 3, price: { shop: '20.00', presentment: '3100' } }] },
    ]);
  });

  test('the shares of the units of a stated order never add up to more than was paid', async () => {
    const price = { shop: '1000', presentment: '1000' };
    const discount = { shop: '9', presentment: '9' };
    const { tax: _, ...untaxed } = LINE;
    const line = { ...untaxed, quantity: 10, price, discount };
    const order = { ...ORDER, currency: 'jpy', lines: [line] };
    await submit({ order, items: [{ sku: 'MUG-1', quantity: 1 }] });
    const [share] = asked[0]?.lines ?? [];
    expect(share).toMatchObject({ price: { shop: '100' }, discount: { shop: '1' } });
  });

  test.each([
    [{ order: ORDER, items: [{ sku: 'HAT', quantity: 1 }] }, 'items[0].sku is not in the order.'],
    [{ order: ORDER, order_name: '#1' }, 'order must not be given together with order_name.'],
    [
      { order: { ...ORDER, lines: [{ ...LINE, price: null }] } },
      'order.lines[0].price is required',
    ],
    [
      { order: ORDER, items: [{ sku: 'MUG-1', quantity: 4 }] },
      'items[0].quantity must be at most 3, which were ordered.',
    ],
  ])('rejects the stated order %#', async (json, message) => {
    const { status, body } = await submit(json);
    expect([status, body]).toMatchObject([422, { message: expect.stringContaining(message) }]);
    expect(asked).toEqual([]);
  });
});
