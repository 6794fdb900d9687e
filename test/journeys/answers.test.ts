import { randomInt } from 'node:crypto';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { submission } from '../../deploy/local/demo/submission.ts';
import { GiftCardMode, LabelProvider } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { partnerForTests, verified } from '../kit/journeys/hooks.ts';
import { callIn, journeyForTests } from '../kit/journeys/journey.ts';
import type { StackShop } from '../kit/stack.ts';

/** Partners who respond to what the service asks of them, over REST. A provider has only the webhook and its own key. */

const journey = journeyForTests();
const partner = partnerForTests(journey);
let shop: StackShop;
beforeAll(async () => {
  shop = journey.stack.shop;
  const settings = { labelProvider: LabelProvider.THIRD_PARTY };
  await journey.services.returns.updateSettings({ ...callIn(shop), settings });
});

async function submit(outcome: 'credit' | 'refund'): Promise<number> {
  const demo = { ...shop, destinationId: shop.fixtures.destinations.linked };
  const serial = randomInt(10_000_000, 2_000_000_000);
  const key = `answers:${serial}`;
  const made = await journey.services.returns.submitReturn(
    submission(demo, { key, serial, outcome }),
  );
  return Number(made.return?.id);
}

async function detailsOf(returnId: number): Promise<Readonly<Record<string, unknown>>> {
  const path = `/api/2026-10/warehouse/return/details?return_id=${returnId}`;
  const { body } = await journey.send({ path });
  return body as Readonly<Record<string, unknown>>;
}

describe('a label provider', () => {
  const key = () => shop.api_keys['labels:write'] ?? '';

  test('makes the label of label.request.issued, and reports where the parcel is', async () => {
    const hook = await partner.subscribe('label.request', 'label.request.issued');
    const returnId = await submit('refund');
    const request = verified(hook, await partner.nth(hook, 1));
    expect(request).toMatchObject({ return_id: returnId });

    const created_at = new Date(Date.now() - 10 * 60_000).toISOString();
    const record = () =>
      journey.send({
        path: `/api/2026-10/returns/${request.return_id}/labels`,
        key: key(),
        headers: { 'Idempotency-Key': `request-${request.id}` },
        json: {
          carrier: 'Sample Post',
          tracking_number: 'SP1',
          rate: '4.90',
          created_at,
          url: 'https://labels.example.com/1.pdf',
        },
      });
    const [made, again] = [await record(), await record()];
    expect(made.status).toBe(201);
    expect(again.body).toEqual(made.body);
    const { id, return_id, ...label } = made.body as { id: number; return_id: number };
    expect(return_id).toBe(returnId);
    expect(label).toMatchObject({ status: 'new', carrier: 'Sample Post', rate: 490 });
    expect((await detailsOf(returnId)).labels).toEqual([label]);

    const update = (status: string, ago: number) =>
      journey.send({
        method: 'PUT',
        path: `/api/2026-10/labels/${id}`,
        key: key(),
        json: { status, occurred_at: new Date(Date.now() - ago * 60_000).toISOString() },
      });
    expect(await update('delivered', 1)).toMatchObject({
      status: 200,
      body: { status: 'delivered' },
    });
    for (const ignored of [await update('in_transit', 2), await update('failure', 0)]) {
      expect(ignored).toMatchObject({ status: 200, body: { id, status: 'delivered' } });
    }
    expect((await detailsOf(returnId)).label_status).toBe('delivered');
  });
});

test('a gift-card provider issues the card of giftcard.requested, and the details show it', async () => {
  await journey.services.returns.updateSettings({
    ...callIn(shop),
    settings: { giftCardMode: GiftCardMode.EXTERNAL },
  });
  const hook = await partner.subscribe('giftcard', 'giftcard.requested');
  const returnId = await submit('credit');
  const queued = await journey.send({
    path: `/api/2026-10/warehouse/return/${returnId}/process`,
    json: {},
  });
  expect(queued.body).toBe(true);
  const { amount, currency, ...request } = verified(hook, await partner.nth(hook, 1));
  expect(request).toMatchObject({ return_id: returnId });
  const record = () =>
    journey.send({
      path: `/api/2026-10/returns/${request.return_id}/gift-card`,
      key: shop.api_keys['giftcards:write'] ?? '',
      headers: { 'Idempotency-Key': `card-${request.id}` },
      json: { order_id: 7_001, order_name: 'Card 7001', amount, currency },
    });
  const [made, again] = [await record(), await record()];
  expect(made).toMatchObject({
    status: 201,
    body: { id: request.id, return_id: returnId, order_id: 7_001, amount, currency },
  });
  expect(again.body).toEqual(made.body);
  expect(await detailsOf(returnId)).toMatchObject({
    gift_card_order_id: 7_001,
    gift_card_order_name: 'Card 7001',
    gift_card_presentment: { value: amount, currency },
  });
});
