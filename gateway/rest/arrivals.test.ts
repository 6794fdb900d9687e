import { create, equals, type MessageShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import {
  ExpectedLineSchema,
  type ListExpectedRequestSchema,
  RecordReceiptRequestSchema,
} from '../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { idempotencyConflict } from '../../services/platform/values/idempotency.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under.stop());
afterEach(() => under.resetServices());

const seconds = (time: string) => ({ seconds: BigInt(Date.parse(time) / 1_000) });

describe('an arrival', () => {
  const ITEM = { line_item_id: Number(FAKE.lineItem), quantity: 2, damaged_quantity: 1 };
  const BODY = { return_id: 11, items: [{ ...ITEM, note: 'Wet' }] };
  const record = (json: object = BODY, version = '2026-10') => {
    const headers = { 'idempotency-key': 'k1' };
    return send({ path: `/api/${version}/warehouse/arrivals`, json, headers });
  };

  let asked: MessageShape<typeof RecordReceiptRequestSchema>[];
  beforeEach(() => {
    asked = [];
    const { recordReceipt } = under.services.returns;
    // Like the service: the first content of a key counts.
    under.services.returns.recordReceipt = async (request, context) => {
      const first = asked.find(({ idempotencyKey }) => idempotencyKey === request.idempotencyKey);
      asked.push(request);
      if (!recordReceipt) throw new Error('no fake');
      if (first && !equals(RecordReceiptRequestSchema, first, request)) throw idempotencyConflict();
      return { ...(await recordReceipt(request, context)), repeated: first !== undefined };
    };
  });

  test('again under its key is a 200 with the same body, and with other content a 409', async () => {
    const first = await record();
    const unexpected_quantity = 0;
    expect([first.status, first.body]).toEqual([
      201,
      {
        arrival_id: 71,
        return_id: 11,
        return_state: 'closed',
        items: [{ ...ITEM, unexpected_quantity, note: 'Wet' }],
      },
    ]);
    const again = await record();
    expect([again.status, again.text]).toEqual([200, first.text]);
    const other = await record({ ...BODY, items: [ITEM] });
    expect([other.status, other.body]).toEqual([
      409,
      { errors: { code: 'IDEMPOTENCY_KEY_REUSED', message: expect.stringMatching(/\.$/) } },
    ]);
    expect(asked.map(({ idempotencyKey }) => idempotencyKey)).toEqual(
      Array(3).fill(expect.stringMatching(/^rest:header:/)),
    );
  });

  test('passes everything on', async () => {
    await record({
      ...BODY,
      destination_id: Number(FAKE.destination),
      arrived_at: '2026-11-20T11:00:00+01:00',
      unexpected: [
        { sku: 'HAT', barcode: '4006381333931', title: 'Hat', quantity: 3, note: 'Not ours' },
        { quantity: 1 },
      ],
    });
    expect(asked).toMatchObject([
      {
        shopId: FAKE.shopId,
        return: { case: 'returnId', value: 11n },
        destinationId: FAKE.destination,
        arrivedAt: seconds('2026-11-20T10:00:00Z'),
        items: [{ lineItemId: FAKE.lineItem, quantity: 2, damagedQuantity: 1, note: 'Wet' }],
        unexpected: [
          { sku: 'HAT', barcode: '4006381333931', title: 'Hat', quantity: 3, note: 'Not ours' },
          { sku: '', barcode: '', title: '', quantity: 1, note: '' },
        ],
      },
    ]);
  });

  test.each([
    [{ tracking_number: 'EV1' }, { case: 'trackingNumber', value: 'EV1' }],
    [{ order_name: '#1001' }, { case: 'orderName', value: '#1001' }],
  ])('is of the return with %j', async (selector, passed) => {
    expect((await record({ ...selector, items: [ITEM] })).status).toBe(201);
    const [request] = asked;
    expect(request?.return).toEqual(passed);
    expect(request).toMatchObject({ destinationId: 0n, items: [{ note: '' }], unexpected: [] });
    expect(request?.arrivedAt).toBeUndefined();
  });

  test('that several returns match is a 422 that names them', async () => {
    const field = 'order_name';
    const text = `${field} is that of the returns 12, 11: send a return_id`;
    under.services.returns.recordReceipt = () => {
      const reason = ErrorReason.RETURNS_AMBIGUOUS;
      throw new DomainError(Code.InvalidArgument, reason, text, { field });
    };
    const json = { order_name: '#1001', items: [ITEM] };
    const { status, body } = await record(json);
    expect([status, body]).toEqual([422, { message: `${text}.`, errors: {} }]);
    expect((await record(json, 'unstable')).body).toMatchObject({
      status: 422,
      errors: [{ field, message: `${text}.` }],
    });
  });
});

describe('what is expected', () => {
  const path = '/api/2026-10/warehouse/expected';
  const LINE = create(ExpectedLineSchema, {
    ...{ returnId: 11n, lineItemId: 21n, orderName: '#1001', title: 'Scarf' },
    ...{ sku: 'S-1', barcode: '4006381333931', expectedQuantity: 2, arrivedQuantity: 1 },
    ...{ destinationId: FAKE.destination, trackingNumber: 'EV1' },
  });

  test('has a row for each line, with null for what is unknown', async () => {
    const unknown = { sku: '', barcode: '', destinationId: 0n, trackingNumber: '' };
    under.services.returns.listExpected = () => ({
      lines: [LINE, { ...LINE, ...unknown }],
      nextCursor: 'next',
    });
    const row = {
      return_id: 11,
      line_item_id: 21,
      order_name: '#1001',
      sku: 'S-1',
      barcode: '4006381333931',
      title: 'Scarf',
      expected_quantity: 2,
      arrived_quantity: 1,
      destination_id: 31,
      tracking_number: 'EV1',
    };
    const nulls = { sku: null, barcode: null, destination_id: null, tracking_number: null };
    const { status, body } = await send({ path });
    expect([status, body]).toEqual([
      200,
      { expected: [row, { ...row, ...nulls }], next_cursor: 'next' },
    ]);
  });

  const NONE = { destinationId: 0n, trackingNumber: '', orderName: '', sku: '' };
  const since = seconds('2026-11-20T10:00:00Z');

  test.each([
    ['', { pageSize: 50, cursor: '' }],
    ['destination_id=31', { destinationId: 31n }],
    ['tracking_number=EV1', { trackingNumber: 'EV1' }],
    ['order_name=%231001', { orderName: '#1001' }],
    ['sku=S-1', { sku: 'S-1' }],
    ['updated_since=2026-11-20T11:00:00%2B01:00', { updatedSince: since }],
    ['limit=100', { pageSize: 100 }],
    ['cursor=next', { cursor: 'next' }],
  ])('?%s reaches the service', async (query, passed) => {
    const asked: MessageShape<typeof ListExpectedRequestSchema>[] = [];
    under.services.returns.listExpected = (request) => {
      asked.push(request);
      return {};
    };
    expect((await send({ path: `${path}?${query}` })).status).toBe(200);
    expect(asked).toMatchObject([{ shopId: FAKE.shopId, ...NONE, ...passed }]);
    expect(asked[0]?.updatedSince === undefined).toBe(!('updatedSince' in passed));
  });
});
