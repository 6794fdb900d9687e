import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { type Event, EventSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { LabelRequest_State, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SAMPLE_LINE_ITEM_ID,
  SAMPLE_RETURN_ID,
  SAMPLE_TIME,
  sampleAddress,
  sampleLabel,
  sampleReturn,
} from './sample-return.ts';
import { RETURN_TRIGGERS, type Trigger } from './vocabulary.ts';

type Detail = NonNullable<MessageInitShape<typeof EventSchema>['detail']>;

const at = timestampFromDate(SAMPLE_TIME);

/** Makes a test event of any trigger from the documented sample data, with a new id. */
export function sampleEvent(
  trigger: Trigger,
  shopId: bigint,
  eventId: string = randomUUID(),
): Event {
  const aboutReturn = RETURN_TRIGGERS.some((one) => one === trigger);
  const detail = detailOf(trigger, shopId);
  const state: ReturnState = trigger === 'return.closed' ? ReturnState.CLOSED : ReturnState.OPEN;
  return create(EventSchema, {
    eventId,
    schema: 'rms.events.v1',
    trigger,
    shopId,
    occurredAt: at,
    actor: { kind: Actor_Kind.SYSTEM, id: 'sample', name: 'Test event' },
    ...(aboutReturn
      ? { returnId: SAMPLE_RETURN_ID, revision: 3n, snapshot: sampleReturn(shopId, state) }
      : {}),
    ...(detail ? { detail } : {}),
  });
}

function detailOf(trigger: Trigger, shopId: bigint): Detail | undefined {
  switch (trigger) {
    case 'return.created':
    case 'return.updated':
    case 'return.closed':
      return undefined;
    case 'return.processing.failed':
      return {
        case: 'processingFailed',
        value: { message: 'Processing failed.', source: 'warehouse' },
      };
    case 'label.created':
    case 'label.updated':
      return { case: 'label', value: sampleLabel() };
    case 'restock.requested':
      return { case: 'restock', value: { items: [restockItem] } };
    case 'label.request.issued':
      return labelRequest(shopId, LabelRequest_State.OPEN);
    case 'label.request.cancelled':
      return labelRequest(shopId, LabelRequest_State.CANCELLED);
    case 'giftcard.requested':
      return {
        case: 'giftCard',
        value: {
          id: 800_000_001n,
          returnId: SAMPLE_RETURN_ID,
          money: { value: '40.00', currency: 'GBP' },
        },
      };
    case 'shipment.processed':
      return {
        case: 'shipment',
        value: {
          id: 900_000_001n,
          partnerShipmentId: 'SAMPLE-SHIPMENT-1',
          returnIds: [SAMPLE_RETURN_ID],
          processedAt: at,
        },
      };
    case 'withdrawal.received':
      return {
        case: 'withdrawal',
        value: {
          ...{ id: 950_000_001n, shopId, orderName: '#1001', name: 'Sam Sample' },
          ...{ email: 'sam@example.com', declaredAt: at },
        },
      };
    default:
      return trigger satisfies never;
  }
}

const restockItem = {
  lineItemId: SAMPLE_LINE_ITEM_ID,
  locationId: 5_000_000_000_001n,
  variantId: 4_000_000_000_001n,
  quantity: 1,
};

function labelRequest(shopId: bigint, state: LabelRequest_State): Detail {
  return {
    case: 'labelRequest',
    value: {
      id: 850_000_001n,
      returnId: SAMPLE_RETURN_ID,
      shopId,
      createdAt: at,
      state,
      origin: sampleAddress('Sam Sample'),
      destination: sampleAddress('Sample warehouse'),
      parcel: { lengthCm: 40, widthCm: 30, heightCm: 10, weightG: 350 },
      products: [
        {
          name: 'Sample shirt',
          sku: 'SAMPLE-M-BLUE',
          hsCode: '610510',
          countryOfOrigin: 'PT',
          price: { value: '40.00', currency: 'GBP' },
        },
      ],
    },
  };
}
