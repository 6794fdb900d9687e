import type { Client } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { CommerceService } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor, identity } from '../../../test/kit/services/running-service.ts';
import { createServiceClient } from '../../platform/rpc/client.ts';
import { purge } from '../../returns/retention/purge.ts';

let bench: ReturnsBench;
let channel: { client: Client<typeof CommerceService>; close(): void };
let shopId: bigint;
let secret: string;
beforeAll(async () => {
  bench = await startReturnsBench();
  channel = createServiceClient(CommerceService, { target: bench.target, identity });
});
afterAll(async () => {
  channel?.close();
  await bench?.stop();
});
beforeEach(async () => {
  shopId = await bench.shop();
  secret = await connect();
});

async function connect(): Promise<string> {
  const made = await channel.client.connect({ shopId, actor, url: 'http://127.0.0.1:9/' });
  return made.secret?.value ?? '';
}

const order = () => ({
  id: 501,
  name: '#501',
  updated_at: '2026-11-20T10:00:00Z',
  lines: [{ line_item_id: 9001, quantity: 2 }],
});
const refund = () => ({
  id: 'R-1',
  order_id: 501,
  created_at: '2026-11-20T10:00:00Z',
  amount: '5.00',
  currency: 'GBP',
  lines: [{ line_item_id: 9001, quantity: 1, amount: '5.00' }],
});
const orderEvent = (more: object = {}) => ({
  type: 'order.updated',
  data: { order: { ...order(), ...more } },
});
const refundEvent = (more: object = {}) => ({
  type: 'refund.created',
  data: { refund: { ...refund(), ...more } },
});

interface Sending {
  readonly id?: string;
  readonly at?: Date;
  readonly with?: string;
  readonly to?: bigint;
  /** The body that is sent in place of the signed one. */
  readonly sent?: string;
}

async function receive(event: unknown, o: Sending = {}) {
  const { id = 'e1', at = new Date(), sent } = o;
  const signed = typeof event === 'string' ? event : JSON.stringify(event);
  const { result } = await channel.client.receiveEvent({
    shopId: o.to ?? shopId,
    actor,
    webhookId: id,
    body: Buffer.from(sent ?? signed),
    webhookTimestamp: String(Math.floor(at.getTime() / 1_000)),
    webhookSignature: new Webhook(o.with ?? secret).sign(id, at, signed),
  });
  return result;
}

const accepted = { case: 'accepted' };
const unverified = { case: 'unverified' };
const invalid = (message: string) => ({
  case: 'invalid',
  value: { message: expect.stringContaining(message) },
});

async function stored() {
  const { rows } = await bench.db.pool.query<{ orders: bigint; refunds: bigint }>(
    `select (select count(*) from inbound_orders where shop_id = $1) as orders,
            (select count(*) from inbound_refunds where shop_id = $1) as refunds`,
    [shopId],
  );
  return rows[0];
}

describe('an event that is signed with the secret of the connection', () => {
  test('records an order, and a refund', async () => {
    expect(await receive(orderEvent())).toMatchObject(accepted);
    expect(await receive(refundEvent({ id: 77, key: null }), { id: 'e2' })).toMatchObject(accepted);
    expect(await stored()).toEqual({ orders: 1n, refunds: 1n });
  });

  test('may have fields that this service does not need', async () => {
    expect(await receive(orderEvent({ note: 'x' }))).toMatchObject(accepted);
  });

  test('changes nothing when its id was recorded, also at once', async () => {
    const all = await Promise.all([1, 2, 3].map((n) => receive(refundEvent({ id: n }))));
    for (const one of all) expect(one).toMatchObject(accepted);
    expect(await stored()).toMatchObject({ refunds: 1n });
  });

  test('records a refund once, in whatever spelling its id is', async () => {
    for (const [n, id] of ['R-\u00e9', ' R-\u00e9 ', 'R-e\u0301'].entries()) {
      expect(await receive(refundEvent({ id }), { id: `e${n}` })).toMatchObject(accepted);
    }
    expect(await stored()).toMatchObject({ refunds: 1n });
  });

  test('has an id that is kept for a week', async () => {
    await receive(orderEvent());
    const age = async (days: number) => {
      await bench.db.pool.query(
        `update inbound_events set received_at = now() - $2 * interval '1 day' where shop_id = $1`,
        [shopId, days],
      );
      await purge(bench.db.pool, 30);
      const events = 'select from inbound_events where shop_id = $1';
      return (await bench.db.pool.query(events, [shopId])).rowCount;
    };
    expect([await age(6), await age(8)]).toEqual([1, 0]);
  });

  test('is accepted with the old and the new secret during a rotation', async () => {
    const next = await channel.client.rotateSecret({ shopId, actor });
    expect(await receive(orderEvent())).toMatchObject(accepted);
    const both = { id: 'e2', with: next.secret?.value ?? '' };
    expect(await receive(orderEvent(), both)).toMatchObject(accepted);
  });
});

describe('an event is not verified', () => {
  const minutes = (n: number) => new Date(Date.now() + n * 60_000);

  test.each<[string, () => Sending]>([
    ['with another secret', () => ({ with: 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=' })],
    ['with a changed body', () => ({ sent: JSON.stringify(orderEvent({ name: '#502' })) })],
    ['that is older than five minutes', () => ({ at: minutes(-6) })],
    ['that is of the future', () => ({ at: minutes(6) })],
    ['for a shop that does not exist', () => ({ to: shopId + 1n })],
  ])('%s', async (_name, sending) => {
    expect(await receive(orderEvent(), sending())).toMatchObject(unverified);
    expect(await stored()).toEqual({ orders: 0n, refunds: 0n });
  });

  test('for another shop that is connected', async () => {
    const other = await bench.shop();
    await channel.client.connect({ shopId: other, actor, url: 'http://127.0.0.1:9/' });
    expect(await receive(orderEvent(), { to: other })).toMatchObject(unverified);
  });

  test('after the connection was removed', async () => {
    await channel.client.disconnect({ shopId, actor });
    expect(await receive(orderEvent())).toMatchObject(unverified);
  });

  test.each([
    { webhookId: '' },
    { webhookId: 'x'.repeat(201) },
    { webhookTimestamp: 'now' },
    { webhookSignature: '' },
    { webhookSignature: 'x'.repeat(2_001) },
  ])('with the header %j', async (header) => {
    const { result } = await channel.client.receiveEvent({
      shopId,
      actor,
      body: Buffer.from('{}'),
      webhookId: 'e1',
      webhookTimestamp: String(Math.floor(Date.now() / 1_000)),
      webhookSignature: 'v1,AAAA',
      ...header,
    });
    expect(result).toMatchObject(unverified);
  });
});

describe('an invalid event names its field', () => {
  const tooMany = Array.from({ length: 1_001 }, (_, n) => ({ line_item_id: n + 1, quantity: 1 }));
  const [line] = refund().lines;

  test.each<[string, unknown]>([
    ['the body must be JSON', '{'],
    ['the body', []],
    ['type', { type: 'order.deleted', data: {} }],
    ['data', { type: 'order.updated' }],
    ['data.order.id', orderEvent({ id: '501' })],
    ['data.order.id', orderEvent({ id: 2 ** 53 })],
    ['data.order.name', orderEvent({ name: 'x'.repeat(192) })],
    ['data.order.name', orderEvent({ name: 'a\0b' })],
    ['data.order.updated_at', orderEvent({ updated_at: 'yesterday' })],
    ['data.order.updated_at: must not be in', orderEvent({ updated_at: '2999-01-01T00:00:00Z' })],
    ['data.order.cancelled_at', orderEvent({ cancelled_at: '' })],
    ['data.order.lines', orderEvent({ lines: tooMany })],
    ['data.order.lines', orderEvent({ lines: [...order().lines, ...order().lines] })],
    ['data.order.lines[0].quantity', orderEvent({ lines: [{ line_item_id: 1, quantity: -1 }] })],
    ['data.refund.id', refundEvent({ id: '' })],
    ['data.refund.key', refundEvent({ key: 'x'.repeat(201) })],
    ['data.refund.amount', refundEvent({ amount: '-5.00' })],
    ['data.refund.amount', refundEvent({ amount: '9'.repeat(13) })],
    ['data.refund.currency', refundEvent({ currency: 'pounds' })],
    ['data.refund.order_id', refundEvent({ order_id: 0 })],
    ['data.refund.lines[0].amount', refundEvent({ lines: [{ ...line, amount: '0.00001' }] })],
    ['data.refund.lines[0].line_item_id', refundEvent({ lines: [{ ...line, line_item_id: 1.5 }] })],
  ])('%s (%#)', async (field, event) => {
    expect(await receive(event)).toMatchObject(invalid(field));
    expect(await stored()).toEqual({ orders: 0n, refunds: 0n });
    expect(await receive(orderEvent())).toMatchObject(accepted);
  });
});
