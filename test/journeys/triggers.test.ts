import { randomInt } from 'node:crypto';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { submission } from '../../deploy/local/demo/submission.ts';
import { LabelStatus } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  GiftCardMode,
  LabelProvider,
  RestockMode,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { TRIGGERS } from '../../services/contract/vocabulary.ts';
import { type EveryTrigger, subscribeToAll } from '../kit/journeys/every-trigger.ts';
import { type StartedPartner, startPartner } from '../kit/journeys/hooks.ts';
import { callIn, journeyForTests } from '../kit/journeys/journey.ts';
import type { StackShop } from '../kit/stack.ts';

const journey = journeyForTests();

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;
const iso = expect.stringMatching(ISO);
const id = expect.any(Number);
const ADDRESS = { name: '', company: '', address2: '', state: '', country_code: 'GB' };

describe.each([
  [0, '2026-07', 'GBP'],
  [1, '2026-10', 'EUR'],
])('shop %i, payloads of %s', (at, version, currency) => {
  let shop: StackShop;
  let partner: StartedPartner;
  let all: EveryTrigger;
  let returnId: number;
  let lines: readonly number[];

  beforeAll(async () => {
    const found = journey.stack.file.shops[at];
    if (!found) throw new Error(`there is no shop ${at}`);
    shop = found;
    expect(shop).toMatchObject({ payload_version: version, currency });
    partner = await startPartner(journey, shop);
    all = await subscribeToAll(partner, version);
    await journey.services.returns.updateSettings({
      ...callIn(shop),
      settings: {
        restockMode: RestockMode.WEBHOOK,
        giftCardMode: GiftCardMode.EXTERNAL,
        labelProvider: LabelProvider.THIRD_PARTY,
        parcel: { lengthCm: 40, widthCm: 30, heightCm: 20 },
      },
    });
  });
  afterAll(() => partner?.stop());

  const next = (trigger: string) => all.next(trigger);

  /** Return details as this shop reads them in its payload version. */
  async function details(): Promise<Record<string, unknown>> {
    const path = `/api/${version}/warehouse/return/details?return_id=${returnId}`;
    const { body } = await journey.send({ path, key: shop.api_keys.returns ?? '' });
    return body as Record<string, unknown>;
  }

  async function expectDetails(trigger: string): Promise<void> {
    const payload = await next(trigger);
    expect(payload).toEqual({ topic: 'return', trigger, shop_id: shop.id, ...(await details()) });
  }

  test('a submitted return causes return.created and label.request.issued', async () => {
    const demo = { ...shop, destinationId: shop.fixtures.destinations.linked };
    const serial = randomInt(10_000_000, 2_000_000_000);
    const key = `triggers:${serial}`;
    const made = await journey.services.returns.submitReturn(
      submission(demo, { key, serial, outcome: 'credit' }),
    );
    returnId = Number(made.return?.id);
    lines = made.return?.lineItems.map(({ lineItemId }) => Number(lineItemId)) ?? [];
    await expectDetails('return.created');
    const place = { ...ADDRESS, address1: '1 Sample Street', city: 'London', zip: 'N1 1AA' };
    expect(await next('label.request.issued')).toEqual({
      topic: 'label.request',
      trigger: 'label.request.issued',
      id,
      return_id: returnId,
      shop_id: shop.id,
      created_at: iso,
      addresses: {
        origin: { ...place, country: expect.any(String) },
        destination: { ...place, country: 'United Kingdom' },
      },
      parcel: { length: 40, width: 30, height: 20, weight: 800 },
      products: lines.map(() => ({
        name: expect.stringMatching(/ - Medium$/),
        sku: expect.stringMatching(/^SKU-/),
        hs_code: '610910',
        country_of_origin: 'PT',
        price: { amount: expect.stringMatching(/^\d+\.\d\d$/), currency },
      })),
    });
  });

  test('a label causes label.created, label.updated and return.updated', async () => {
    const { label } = await journey.services.returns.recordLabel({
      ...callIn(shop),
      idempotencyKey: `label:${returnId}`,
      returnId: BigInt(returnId),
      carrier: 'Sample Post',
      trackingNumber: `T-${returnId}`,
      url: 'https://labels.example.com/1.pdf',
      rate: '4.90',
    });
    await expectDetails('return.updated');
    const { order_id, provider_order_id } = await details();
    const payload = {
      topic: 'label',
      trigger: 'label.created',
      shop_id: shop.id,
      return_id: returnId,
      order_id,
      provider_order_id,
      carrier: 'Sample Post',
      tracking_number: `T-${returnId}`,
      label_status: 'new',
      label_updated_at: iso,
      label_url: 'https://labels.example.com/1.pdf',
    };
    expect(await next('label.created')).toEqual(payload);
    await journey.services.returns.updateLabel({
      ...callIn(shop),
      labelId: label?.id ?? 0n,
      status: LabelStatus.IN_TRANSIT,
      occurredAt: timestampFromDate(new Date()),
    });
    expect(await next('label.updated')).toEqual({
      ...payload,
      trigger: 'label.updated',
      label_status: 'in_transit',
    });
    await expectDetails('return.updated');
  });

  test('a grading causes return.updated, with the category name of the version', async () => {
    await journey.services.dispositions.gradeItems({
      ...callIn(shop),
      items: lines.map((line) => ({ lineItemId: BigInt(line), category: 'grade_c' })),
    });
    const payload = await next('return.updated');
    expect(payload).toEqual({
      topic: 'return',
      trigger: 'return.updated',
      shop_id: shop.id,
      ...(await details()),
    });
    const category = expect.objectContaining({ grade: 'c', category_name: null });
    expect(payload.line_items).toMatchObject(
      lines.map(() => ({
        condition: { condition_category: version === '2026-07' ? 'grade_c' : category },
      })),
    );
  });

  test('a cancelled label request causes label.request.cancelled', async () => {
    const { labelRequest } = await journey.services.returns.requestLabel({
      ...callIn(shop),
      returnId: BigInt(returnId),
    });
    const issued = await next('label.request.issued');
    expect(issued.id).toBe(Number(labelRequest?.id));
    await journey.services.returns.cancelLabelRequest({
      ...callIn(shop),
      requestId: labelRequest?.id ?? 0n,
    });
    expect(await next('label.request.cancelled')).toEqual({
      ...issued,
      trigger: 'label.request.cancelled',
    });
  });

  test('a withdrawal causes withdrawal.received', async () => {
    const { withdrawal } = await journey.services.returns.declareWithdrawal({
      ...callIn(shop),
      idempotencyKey: 'a withdrawal',
      ...{ orderName: '#1001', name: 'Ada Example', email: 'ada@example.com' },
    });
    expect(await next('withdrawal.received')).toEqual({
      topic: 'withdrawal',
      trigger: 'withdrawal.received',
      id: Number(withdrawal?.id),
      shop_id: Number(withdrawal?.shopId),
      order_name: '#1001',
      name: 'Ada Example',
      email: 'ada@example.com',
      declared_at: iso,
      return_id: null,
    });
  });

  test('a consolidated shipment causes shipment.processed and return.updated', async () => {
    await journey.services.returns.recordPartnerShipment({
      ...callIn(shop),
      partnerShipmentId: `PS-${returnId}`,
      lineItemIds: lines.map(BigInt),
      tracking: 'PALLET-1',
      destinationId: BigInt(shop.fixtures.destinations.unlinked),
      processedAt: timestampFromDate(new Date('2026-11-02T08:00:00Z')),
    });
    expect(await next('shipment.processed')).toEqual({
      topic: 'partner.returns.shipment',
      trigger: 'shipment.processed',
      shipment_id: id,
      partner_shipment_id: `PS-${returnId}`,
      return_ids: [returnId],
      processed_at: '2026-11-02T08:00:00+00:00',
    });
    await expectDetails('return.updated');
  });

  test('a processed return causes return.closed, restock.requested and giftcard.requested', async () => {
    const path = `/api/${version}/warehouse/return/${returnId}/process`;
    const processed = await journey.send({
      method: 'POST',
      path,
      key: shop.api_keys.returns ?? '',
    });
    expect(processed.body).toBe(true);
    await expectDetails('return.closed');
    const { order_id, provider_order_id, order_name, customer, ...closed } = await details();
    expect(closed).toMatchObject({ state: 'closed' });
    expect(await next('restock.requested')).toEqual({
      topic: 'restock',
      trigger: 'restock.requested',
      id: returnId,
      order_id,
      provider_order_id,
      restock_items: lines.map((line_item_id) => {
        return { line_item_id, location_id: 1_000_000_000_001, variant_id: id, quantity: 1 };
      }),
    });
    expect(await next('giftcard.requested')).toEqual({
      topic: 'giftcard',
      trigger: 'giftcard.requested',
      id,
      return_id: returnId,
      amount: '87.00',
      currency,
      email: customer,
      first_name: closed.customer_first_name,
      last_name: closed.customer_last_name,
      order_id,
      order_name,
    });
  });

  test('processing that fails permanently causes return.processing.failed', async () => {
    const { id: failing } = await journey.stack.control<{ id: number }>(
      'POST',
      `/fixtures/fails?shop=${shop.id}`,
    );
    await journey.services.returns.processReturn({
      ...callIn(shop),
      returnId: BigInt(failing),
      source: 'admin',
    });
    expect(await next('return.processing.failed')).toEqual({
      topic: 'return.processing',
      trigger: 'return.processing.failed',
      return_id: failing,
      return_state: 'open',
      message: expect.any(String),
      source: 'admin',
    });
  });

  test('every trigger arrived, and no event arrived twice at a subscription', () => {
    expect([...all.seen.keys()].sort()).toEqual([...TRIGGERS].sort());
    for (const hook of all.hooks.values()) {
      const events = partner.received(hook).map(({ headers }) => headers['x-service-event-id']);
      expect(new Set(events).size).toBe(events.length);
    }
  });
});
