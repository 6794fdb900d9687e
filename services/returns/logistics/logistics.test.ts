import { randomUUID } from 'node:crypto';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  CustomerUpload_Kind,
  type Return,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
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
import { makeLarge, readAtOnce, statementsDuring } from '../store/testing/large-returns.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const yesterday = timestampFromDate(new Date('2026-01-01T08:00:00Z'));
const tomorrow = timestampFromDate(new Date(Date.now() + 86_400_000));

describe('record arrival', () => {
  test('records when goods arrived and where they travel on', async () => {
    const submitted = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    const { return: arrived } = await bench.client.recordArrival({
      shopId: submitted.shopId,
      actor,
      lineItemIds: [firstLine(submitted)],
      returnedAt: yesterday,
      consolidationTracking: 'C-1',
      consolidationDestinationId: WAREHOUSE,
    });
    expect(arrived?.lineItems[0]).toMatchObject({
      returnedAt: yesterday,
      consolidationTracking: 'C-1',
      consolidationDestinationId: WAREHOUSE,
    });
    expect(arrived?.lineItems[1]?.returnedAt).toBeUndefined();
    expect(await bench.triggers(submitted)).toEqual(['return.updated']);
  });

  test('changes and publishes nothing when it is repeated without a time', async () => {
    const submitted = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    const [first, second] = submitted.lineItems.map((one) => one.lineItemId);
    const arrive = async (lineItemIds: (bigint | undefined)[], returnedAt?: Timestamp) =>
      present(
        (
          await bench.client.recordArrival({
            shopId: submitted.shopId,
            actor,
            lineItemIds: lineItemIds.map(present),
            ...(returnedAt && { returnedAt }),
          })
        ).return,
      );
    const arrived = await arrive([first]);
    expect(arrived.lineItems[0]?.returnedAt).toBeDefined();
    expect(await arrive([first])).toEqual(arrived);
    expect(await arrive([first], present(arrived.lineItems[0]).returnedAt)).toEqual(arrived);

    const both = await arrive([first, second]);
    expect(both.lineItems[0]).toEqual(arrived.lineItems[0]);
    expect(both.lineItems[1]?.returnedAt).toBeDefined();
    expect((await arrive([first], yesterday)).lineItems[0]?.returnedAt).toEqual(yesterday);
    const entries = (await bench.timeline(submitted)).filter(
      (one) => one.kind === 'return.arrived',
    );
    expect(entries.map((one) => one.facts.lines)).toEqual([`${first}`, `${second}`, `${first}`]);
    expect(await bench.triggers(submitted)).toEqual(Array(3).fill('return.updated'));
  });

  test('rejects lines of two returns or of another shop, the future, and unknown destinations', async () => {
    const shopId = await bench.shop();
    const [one, other] = [await bench.submit(shopId), await bench.submit(shopId)];
    const record = (more: {
      lineItemIds?: bigint[];
      returnedAt?: Timestamp;
      consolidationDestinationId?: bigint;
    }) => bench.client.recordArrival({ shopId, actor, lineItemIds: [firstLine(one)], ...more });
    const both = [firstLine(one), firstLine(other)];
    expect(await refusal(record({ lineItemIds: both }))).toEqual(invalid('line_item_ids'));
    expect(await refusal(record({ lineItemIds: [] }))).toEqual(invalid('line_item_ids'));
    expect(await refusal(record({ lineItemIds: [1n << 40n] }))).toEqual(notFound('LINE_ITEM'));
    expect(await refusal(record({ returnedAt: tomorrow }))).toEqual(invalid('returned_at'));
    expect(await refusal(record({ consolidationDestinationId: 99n }))).toEqual(
      notFound('DESTINATION'),
    );
  });

  test.each([
    ['closed', ReturnState.CLOSED],
    ['expired', ReturnState.OPEN],
  ] as const)(
    'takes goods of a return that is %s, which is then in state %s',
    async (end, state) => {
      const submitted = await bench.submit(await bench.shop());
      await bench.end(submitted, end);
      const { shopId } = submitted;
      const lineItemIds = [firstLine(submitted)];
      const arrived = present(
        (await bench.client.recordArrival({ shopId, actor, lineItemIds })).return,
      );
      expect(arrived.state).toBe(state);
      expect(present(arrived.lineItems[0]).returnedAt).toBeDefined();
      expect(await bench.triggers(submitted)).toEqual(['return.updated']);
    },
  );

  test('rejects goods of a cancelled return', async () => {
    const submitted = await bench.submit(await bench.shop());
    await bench.end(submitted, 'cancelled');
    const { shopId } = submitted;
    const lineItemIds = [firstLine(submitted)];
    const call = bench.client.recordArrival({ shopId, actor, lineItemIds });
    expect(await refusal(call)).toEqual(stateForbids);
  });
});

describe('record partner shipment', () => {
  async function twoReturns() {
    const shopId = await bench.shop();
    const returns = [await bench.submit(shopId), await bench.submit(shopId)];
    const request = {
      shopId,
      actor,
      partnerShipmentId: randomUUID(),
      lineItemIds: returns.map(firstLine).reverse(),
      tracking: 'T-1',
      destinationId: WAREHOUSE,
      processedAt: yesterday,
    };
    return { shopId, returns, request };
  }

  test('publishes itself under its own key, and each return', async () => {
    const { shopId, returns, request } = await twoReturns();
    const shipment = present((await bench.client.recordPartnerShipment(request)).shipment);
    expect(shipment).toMatchObject({
      partnerShipmentId: request.partnerShipmentId,
      returnIds: returns.map((one) => one.id),
      processedAt: yesterday,
    });
    for (const one of returns) expect(await bench.triggers(one)).toEqual(['return.updated']);
    expect((await bench.read(present(returns[0]))).lineItems[0]).toMatchObject({
      consolidationTracking: 'T-1',
      consolidationDestinationId: WAREHOUSE,
    });
    const published = (await bench.events(shopId)).at(-1);
    expect(published).toMatchObject({ trigger: 'shipment.processed', returnId: 0n });
    expect(published?.detail.value).toEqual(shipment);
    const { rows } = await bench.db.pool.query(
      "select key from events where shop_id = $1 and trigger = 'shipment.processed'",
      [shopId],
    );
    expect(rows).toEqual([{ key: `${shopId}:${shipment.id}` }]);
  });

  test('returns the first shipment for the same id, and rejects the id with other content', async () => {
    const { shopId, request } = await twoReturns();
    const answers = await Promise.all([
      bench.client.recordPartnerShipment(request),
      bench.client.recordPartnerShipment(request),
    ]);
    expect(answers[0]).toEqual(answers[1]);
    const shipped = (await bench.events(shopId)).filter((one) => one.detail.case === 'shipment');
    expect(shipped).toHaveLength(1);
    const other = bench.client.recordPartnerShipment({ ...request, tracking: 'T-2' });
    expect(await refusal(other)).toEqual({
      code: Code.AlreadyExists,
      reason: 'IDEMPOTENCY_CONFLICT',
      field: 'partner_shipment_id',
    });
  });

  test('opens expired returns of one line only up to the ordered units', async () => {
    const shopId = await bench.shop();
    const lines = [line({ quantity: 2, orderedQuantity: 3 })];
    const returns: Return[] = [];
    for (let n = 0; n < 2; n++) {
      const submitted = await bench.submit(shopId, { lines });
      await bench.end(submitted, 'expired');
      returns.push(submitted);
    }
    const lineItemIds = returns.map(firstLine);
    await bench.client.recordPartnerShipment({
      shopId,
      actor,
      partnerShipmentId: randomUUID(),
      lineItemIds,
    });
    const states = await Promise.all(returns.map(async (one) => (await bench.read(one)).state));
    expect(states).toEqual([ReturnState.OPEN, ReturnState.EXPIRED]);
    expect((await bench.timeline(present(returns[1]))).at(-1)?.kind).toBe('return.stays_expired');
  });

  test('has few large returns in memory at a time, although it publishes all in one transaction', async () => {
    const shopId = await bench.shop();
    const returns: Return[] = [];
    for (let n = 0; n < 4; n++) returns.push(await bench.submit(shopId));
    for (const large of returns.slice(0, 3)) await makeLarge(bench.db.pool, large);
    const partnerShipmentId = randomUUID();
    const lineItemIds = returns.map(firstLine).reverse();
    const request = { shopId, actor, partnerShipmentId, lineItemIds, tracking: 'T-1' };
    const statements = await statementsDuring(() => bench.client.recordPartnerShipment(request));
    const locked = statements.filter(({ text }) => /from returns .* for update/.test(text));
    // The transaction runs again, with a permit.
    expect(locked.map(({ rows }) => rows.length)).toEqual([4, 4]);
    expect(readAtOnce(statements)).toEqual([1, 1, 1, 1, 2, 2]);
    const published = (await bench.events(shopId))
      .slice(4)
      .map((one) => [one.trigger, one.returnId]);
    expect(published).toEqual([
      ...returns.map((one) => ['return.updated', one.id]),
      ['shipment.processed', 0n],
    ]);
    for (const one of returns) {
      const after = await bench.read(one);
      expect(after.lineItems[0]?.consolidationTracking).toBe('T-1');
      expect((await bench.timeline(one)).at(-1)?.kind).toBe('shipment.processed');
    }
  });

  test('rejects lines of another shop and no lines', async () => {
    const { request } = await twoReturns();
    const ofOtherShop = { ...request, lineItemIds: [1n << 40n] };
    expect(await refusal(bench.client.recordPartnerShipment(ofOtherShop))).toEqual(
      notFound('LINE_ITEM'),
    );
    const empty = { ...request, lineItemIds: [] };
    expect(await refusal(bench.client.recordPartnerShipment(empty))).toEqual(
      invalid('line_item_ids'),
    );
  });
});

describe('add customer upload', () => {
  test('adds images and videos to a line, oldest first', async () => {
    const submitted = await bench.submit(await bench.shop());
    const add = (kind: CustomerUpload_Kind, url: string) =>
      bench.client.addCustomerUpload({
        shopId: submitted.shopId,
        actor,
        lineItemId: firstLine(submitted),
        kind,
        url,
      });
    await add(CustomerUpload_Kind.IMAGE, 'https://x.example/1.png');
    const { return: after } = await add(CustomerUpload_Kind.MEDIA, 'http://x.example/2.mp4');
    expect(after?.lineItems[0]?.uploads).toMatchObject([
      { kind: CustomerUpload_Kind.IMAGE, source: 'customer', mediaType: '' },
      { kind: CustomerUpload_Kind.MEDIA, mediaType: 'video' },
    ]);
    expect(await bench.triggers(submitted)).toEqual(['return.updated', 'return.updated']);
    expect(await refusal(add(CustomerUpload_Kind.IMAGE, 'ftp://x/1'))).toEqual(invalid('url'));
    expect(await refusal(add(CustomerUpload_Kind.UNSPECIFIED, 'https://x/1'))).toEqual(
      invalid('kind'),
    );
    await bench.end(submitted, 'closed');
    expect(await refusal(add(CustomerUpload_Kind.IMAGE, 'https://x/1'))).toEqual(stateForbids);
  });
});
