import { describe, expect, test } from '@jest/globals';
import {
  CustomerUpload_Kind,
  LineOutcome,
  Outcome,
  OutcomeSchema,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { at, make, twoCurrencies } from '../testing/two-currencies.ts';
import { word, zero } from '../views/values.ts';
import { RETURN_OUTCOMES } from '../vocabulary.ts';
import { returnDetailsView } from './return-details.ts';

describe('single fields', () => {
  test('top-level timestamps have a space, all others are ISO 8601', () => {
    const details = returnDetailsView(
      make({
        createdAt: at,
        editedAt: at,
        lineItems: [{ returnedAt: at }],
        labels: [{ updatedAt: at }],
      }),
    );
    expect(details).toMatchObject({
      created_at: '2026-07-01 09:08:07',
      edited_at: '2026-07-01 09:08:07',
      updated_at: null,
      label_updated_at: '2026-07-01T09:08:07+00:00',
      line_items: [{ returned_at: '2026-07-01T09:08:07+00:00' }],
    });
  });

  test('ids are numbers, except those that the interface defines as strings', () => {
    const ret = make({
      destinationId: 9n,
      order: { id: 1n, providerOrderId: 2n ** 53n - 1n, name: '#1', number: 4n },
      lineItems: [{ lineItemId: 5n, consolidationDestinationId: 6n, providerLineItemId: 3n }],
    });
    expect(returnDetailsView(ret)).toMatchObject({
      id: 7,
      order_id: 1,
      provider_order_id: 9007199254740991,
      order_number: 4,
      destination_id: '9',
      line_items: [
        { line_item_id: 5, provider_line_item_id: 3, consolidation_destination_id: '6' },
      ],
    });
  });

  test('refunds are all strings; the provider refund object has numbers', () => {
    const details = returnDetailsView(twoCurrencies);
    expect(details.refunds).toEqual([
      {
        gateway: 'cards',
        amount: '919',
        currency: 'JPY',
        provider: 'embedded',
        provider_refund_id: '5000000000001',
      },
    ]);
    expect(details.provider_refund_object).toEqual([
      {
        id: 8,
        return_id: 7,
        provider_refund_id: 5000000000001,
        provider_created_at: '2026-07-01T09:08:07+00:00',
        created_at: '2026-07-01T09:08:07+00:00',
        updated_at: '2026-07-01T09:08:07+00:00',
      },
    ]);
  });

  test('the top-level label is the newest; the list is oldest first', () => {
    const details = returnDetailsView(twoCurrencies);
    expect(details).toMatchObject({
      carrier: 'New',
      tracking_number: 'T2',
      label_status: 'out_for_delivery',
      label_url: 'https://l/2',
    });
    expect(details.labels.map(({ carrier }) => carrier)).toEqual(['Old', 'New']);
    expect(details.labels[1]?.line_items).toEqual([5]);
  });

  test('a label with an unknown rate has null', () => {
    expect(returnDetailsView(make({ labels: [{ rate: '' }] }))).toMatchObject({
      label_rate: null,
      labels: [{ rate: null }],
    });
  });

  test('a condition without a category has null for it', () => {
    const [line] = returnDetailsView(
      make({ lineItems: [{ condition: { images: ['u'] } }] }),
    ).line_items;
    expect(line?.condition).toMatchObject({ condition_category: null, images: ['u'] });
  });

  test('uploads are separated by kind', () => {
    const uploads = [
      { id: 1n, kind: CustomerUpload_Kind.IMAGE, source: 'customer', url: 'i', createdAt: at },
      { id: 2n, kind: CustomerUpload_Kind.MEDIA, mediaType: 'video', url: 'm', createdAt: at },
    ];
    const created_at = '2026-07-01T09:08:07+00:00';
    expect(
      returnDetailsView(make({ lineItems: [{ uploads }] })).line_items[0]?.customer_uploads,
    ).toEqual({
      images: [{ id: 1, source: 'customer', url: 'i', created_at }],
      media: [{ id: 2, type: 'video', url: 'm', created_at }],
    });
  });

  test('enums are the words of the interface', () => {
    const outcomes = OutcomeSchema.values.map(({ number }) =>
      word(OutcomeSchema, number, RETURN_OUTCOMES),
    );
    expect(outcomes).toEqual([null, ...RETURN_OUTCOMES]);
    const ret = make({
      state: ReturnState.REVIEW,
      outcome: Outcome.EXCHANGE_CREDIT,
      lineItems: [{ outcome: LineOutcome.DEFAULT }],
    });
    expect(returnDetailsView(ret)).toMatchObject({
      state: 'review',
      outcome: 'exchange+credit',
      line_items: [{ outcome: 'default' }],
    });
  });

  test.each([
    ['GBP', '0.00'],
    ['JPY', '0'],
    ['KWD', '0.000'],
    ['CLF', '0.0000'],
  ])('zero in %s is %s', (currency, text) => {
    expect(zero(currency)).toBe(text);
  });
});
