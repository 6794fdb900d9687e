import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { DestinationType } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import {
  type EligibilitySchema,
  Ineligibility_Code,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  type LabelSchema,
  LabelStatus,
  LineOutcome,
  Outcome,
  ReturnMethod,
  type ReturnSchema,
  ReturnState,
  ReturnType,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  DeliveryState,
  ReplayKind,
  ReplayState,
  SubscriptionStatus,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';

/** The shop of the fake services, and the objects in it. */
export const FAKE = {
  shopId: 1n,
  returns: { open: 11n, flagged: 12n, closed: 13n, reported: 14n, ofShopWithoutProvider: 15n },
  lineItem: 21n,
  /** Every line item with this id or a higher one belongs to the shop. */
  manyLinesFrom: 1_000n,
  /** A note that makes its return too large. */
  oversizedNote: 'as long as a book',
  destination: 31n,
  label: 51n,
  cartToken: 't'.repeat(43),
  /** The carrier of a label whose key was used with other content. */
  otherContent: 'another carrier',
  /** The comment of a submission that is a repeat. */
  repeated: 'again',
  /** An order line that cannot be returned, and an order that the platform looks up. */
  soldLine: 9_003n,
  webhook: 41n,
  delivery: 'msg_0199e1a4-7b20-8abc-8def-000000000041',
  replay: 61n,
  secret: `whsec_${'A'.repeat(43)}=`,
} as const;

/** The time of all events of the fake objects. */
export const NOW = timestampFromDate(new Date('2026-11-20T10:00:00Z'));

/** An active subscription. */
export function sampleSubscription() {
  return {
    id: FAKE.webhook,
    topic: 'return',
    trigger: 'return.closed',
    url: 'https://hooks.example.com/returns',
    status: SubscriptionStatus.ACTIVE,
    delivers: true,
    createdAt: NOW,
    updatedAt: NOW,
    health: { counted: 3, delivered: 2, payloadVersion: '2026-07', oldestWaitingAt: NOW },
  };
}

/** A delivery whose first attempt succeeded. */
export function sampleDelivery() {
  const attempt = {
    number: 1,
    startedAt: NOW,
    durationMs: 12,
    status: 200,
    requestHeadersJson: '{"webhook-signature":"v1,secret"}',
    responseExcerpt: 'what the receiver said',
    responseHeadersJson: '{"retry-after":"7","set-cookie":"(not stored)"}',
    url: 'https://hooks.example.com/returns',
    timing: { waitMs: 9, readMs: 1 },
  };
  return {
    id: FAKE.delivery,
    subscriptionId: FAKE.webhook,
    eventId: '0199e1a4-7b20-7000-8000-000000000001',
    topic: 'return',
    trigger: 'return.closed',
    state: DeliveryState.DELIVERED,
    apiVersion: '2026-07',
    returnId: FAKE.returns.open,
    occurredAt: NOW,
    createdAt: NOW,
    finishedAt: NOW,
    attempts: [attempt],
    body: new TextEncoder().encode('{"secret":1}'),
  };
}

/** The waiting delivery of a test event. */
export function sampleTest(trigger: string) {
  const { finishedAt: _, ...delivery } = sampleDelivery();
  return {
    ...delivery,
    trigger: trigger || delivery.trigger,
    state: DeliveryState.WAITING,
    test: true,
    attempts: [],
  };
}

/** A replay of the subscription that runs. */
export function sampleReplay() {
  return {
    id: FAKE.replay,
    kind: ReplayKind.REPLAY,
    state: ReplayState.RUNNING,
    filter: { subscriptionId: FAKE.webhook, states: [DeliveryState.EXHAUSTED], from: NOW },
    total: 3,
    done: 1,
    skipped: 0,
    startedAt: NOW,
  };
}

/** Two destinations, ordered by id. */
export function sampleDestinations() {
  const address = { city: 'Leeds', country: 'United Kingdom', countryCode: 'GB' };
  return [
    {
      id: FAKE.destination,
      name: 'Leeds',
      type: DestinationType.WAREHOUSE,
      enabled: true,
      address,
    },
    {
      id: FAKE.destination + 1n,
      name: 'Charity',
      type: DestinationType.DONATE,
      enabled: false,
      address,
    },
  ];
}

/** A report without a category. */
export function sampleReport() {
  return {
    id: 1n,
    returnId: FAKE.returns.reported,
    comment: 'An empty box',
    createdAt: NOW,
    reportedBy: { kind: Actor_Kind.USER, id: '5', name: 'Ada' },
  };
}

/** A new label of the open return. */
export function sampleLabel(): MessageInitShape<typeof LabelSchema> {
  return {
    id: FAKE.label,
    returnId: FAKE.returns.open,
    carrier: 'Evri',
    trackingNumber: 'EV1',
    status: LabelStatus.NEW,
    createdAt: NOW,
    updatedAt: NOW,
    lineItemIds: [FAKE.lineItem],
  };
}

/** An open return with one line. */
export function sampleEligibility(): MessageInitShape<typeof EligibilitySchema> {
  return {
    orderName: '#1001',
    providerOrderId: 1_000_000_000_005n,
    orderedAt: NOW,
    currency: 'GBP',
    presentmentCurrency: 'GBP',
    policyVersion: 3n,
    outcomes: [Outcome.REFUND, Outcome.CREDIT],
    returnMethods: [ReturnMethod.MAIL],
    lines: [
      {
        providerLineItemId: 9_001n,
        sku: 'MUG-1',
        title: 'Mug',
        orderedQuantity: 2,
        returnableQuantity: 1,
        windowEndsAt: NOW,
        price: '10.00',
        refund: '12.00',
        outcomes: [Outcome.REFUND],
        reasons: [
          { code: Ineligibility_Code.IN_OPEN_RETURN, message: 'It is part of another return.' },
        ],
      },
    ],
  };
}

export function sampleReturn(): MessageInitShape<typeof ReturnSchema> {
  return {
    id: FAKE.returns.open,
    shopId: FAKE.shopId,
    revision: 1n,
    createdAt: NOW,
    updatedAt: NOW,
    order: { id: 5n, providerOrderId: 1_000_000_000_005n, name: '#1001' },
    customer: { email: 'ada@example.com' },
    state: ReturnState.OPEN,
    type: ReturnType.STANDARD,
    outcome: Outcome.REFUND,
    returnMethod: ReturnMethod.MAIL,
    currency: 'GBP',
    presentmentCurrency: 'GBP',
    lineItems: [
      {
        lineItemId: FAKE.lineItem,
        quantity: 1,
        outcome: LineOutcome.REFUND,
        condition: { subject: 'item', title: 'Grade A', grade: 'a', inspectedAt: NOW },
      },
    ],
  };
}
