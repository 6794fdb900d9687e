import type { z } from 'zod';
import { LabelStatus } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { conflict } from '../public-errors.ts';
import type { DestinationObject, destinationBody } from '../resources/destination.ts';
import type { GiftCardObject, giftCardBody } from '../resources/gift-card.ts';
import type { labelBody, labelUpdateBody } from '../resources/label.ts';
import { isoTime } from '../time.ts';
import { recordedLabelView } from '../views/recorded-label.ts';
import type { OperationExample } from './example.ts';
import { exampleLabel } from './return.ts';
import { AT, DESTINATION_ID, LINE_ITEM_IDS, PROVIDER_IDS, TIMES } from './story.ts';

const address = {
  name: '',
  company: '',
  address1: '1 Sample Street',
  address2: '',
  city: 'London',
  state: '',
  zip: 'N1 1AA',
  country: 'United Kingdom',
  country_code: 'GB',
};
const warehouse: DestinationObject = {
  id: Number(DESTINATION_ID),
  type: 'warehouse',
  name: 'Main warehouse',
  enabled: true,
  provider_location_id: Number(PROVIDER_IDS) + 1,
  address,
};
const others: DestinationObject[] = [
  { ...warehouse, id: warehouse.id + 1, name: 'Overflow warehouse', provider_location_id: null },
  {
    ...warehouse,
    id: warehouse.id + 2,
    type: 'donate',
    name: 'Donation centre',
    provider_location_id: null,
  },
];
const update: z.input<typeof destinationBody> = {
  name: warehouse.name,
  enabled: true,
  address: {
    address1: address.address1,
    city: address.city,
    zip: address.zip,
    country_code: address.country_code,
    phone: '+44 20 7946 0000',
  },
};

const label = recordedLabelView(exampleLabel(LabelStatus.NEW, AT.labelled));
const recorded: z.input<typeof labelBody> = {
  carrier: label.carrier ?? '',
  tracking_number: label.tracking_number,
  url: label.url,
  rate: '4.90',
  line_item_ids: LINE_ITEM_IDS.map(Number),
  created_at: isoTime(AT.labelled),
};
const carrierUpdate: z.input<typeof labelUpdateBody> = {
  status: 'delivered',
  occurred_at: TIMES.delivered,
};

/**
 * A gift card for another return. The shopper of the example return gets credit by this service, not a card of another
 * provider.
 */
const issued = {
  order_id: 70_000_001,
  order_name: 'GC-70000001',
  amount: '87.00',
  currency: 'GBP',
  issued_at: TIMES.closed,
} satisfies z.input<typeof giftCardBody>;
const card: GiftCardObject = { id: 1, return_id: 35, ...issued };

export const LOGISTICS_EXAMPLES = {
  listDestinations: { response: { destinations: [warehouse, ...others] } },
  getDestination: { response: warehouse },
  updateDestination: {
    request: update,
    response: warehouse,
    invalid: { enabled: true },
  },
  recordLabel: {
    request: recorded,
    response: label,
    conflict: conflict('the return is closed'),
    invalid: { ...recorded, rate: 4.9 },
  },
  updateLabel: {
    request: carrierUpdate,
    response: recordedLabelView(exampleLabel(LabelStatus.DELIVERED, AT.delivered)),
    invalid: { ...carrierUpdate, status: 'lost' },
  },
  recordGiftCard: {
    request: issued,
    response: card,
    conflict: conflict('the gift card of the return was recorded'),
    invalid: { ...issued, amount: 87 },
  },
} satisfies Record<string, OperationExample>;
