import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { z } from 'zod';
import {
  EffectKind,
  EffectSchema,
  EffectState,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  ConditionRecordSchema,
  DispositionRecordSchema,
} from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import {
  ArrivalSchema,
  ExpectedLineSchema,
} from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import {
  LabelStatus,
  type LineItem,
  ReturnState,
  type Totals,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ReturnSummarySchema,
  TimelineEntrySchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { returnDetailsView } from '../details/return-details.ts';
import type { OperationId } from '../operation.ts';
import {
  conflict,
  keyReused,
  noOrderLookUp,
  notCancellable,
  notEligible,
  reportExists,
} from '../public-errors.ts';
import type { arrivalBody } from '../resources/arrival.ts';
import type { CartObject, cartBody } from '../resources/cart.ts';
import type { DestinationObject, destinationBody } from '../resources/destination.ts';
import type { EligibilityObject } from '../resources/eligibility.ts';
import type { FraudReportObject, fraudReportBody } from '../resources/fraud-report.ts';
import type { GiftCardObject, giftCardBody } from '../resources/gift-card.ts';
import type { assessBody, gradeBody } from '../resources/inspection.ts';
import type { labelBody, labelUpdateBody } from '../resources/label.ts';
import type { submissionBody } from '../resources/submission.ts';
import { isoTime } from '../time.ts';
import { arrivalView, expectedPageView } from '../views/arrival.ts';
import { dispositionView, effectView, gradingView, recordedLabelView } from '../views/objects.ts';
import { returnPageView } from '../views/return-summary.ts';
import { timelinePageView } from '../views/timeline.ts';
import type { OperationExample } from './example.ts';
import { POLICY_EXAMPLES } from './policy.ts';
import {
  exampleCondition,
  exampleDisposition,
  exampleLabel,
  exampleReturn,
  FINDINGS,
} from './return.ts';
import {
  AT,
  DESTINATION_ID,
  LINE_ITEM_IDS,
  PROVIDER_IDS,
  RETURN_ID,
  SERIAL,
  TIMES,
  WAREHOUSE_PARTNER,
} from './story.ts';
import { REPLAY_EXAMPLES, WEBHOOK_EXAMPLES } from './webhooks.ts';

const body = {
  cart: [50_001, { variant_id: 50_002, quantity: 2 }],
  shopify: Buffer.from('{"note":"Gift"}').toString('base64'),
} satisfies z.input<typeof cartBody>;
const cart: CartObject = {
  token: Buffer.from('an example of the documents only').toString('base64url'),
  data: body,
};

const CART_EXAMPLES = {
  createCart: { request: body, response: cart, invalid: { cart: ['50001'] } },
  getCart: { response: cart },
} satisfies Record<string, OperationExample>;

const lines = LINE_ITEM_IDS.map((lineItemId, at) => ({
  lineItemId,
  condition: exampleCondition(at),
  disposition: exampleDisposition(at),
}));
const inspection = { return_processor: WAREHOUSE_PARTNER, inspected_at: TIMES.inspected };

const gradings: z.input<typeof gradeBody> = {
  items: LINE_ITEM_IDS.map((id, at) => {
    const { category, description, image } = FINDINGS[at] ?? FINDINGS[0];
    return { line_item_id: Number(id), category, description, ...inspection, images: [image] };
  }),
};

const dispositions = lines.map((line) => dispositionView(create(DispositionRecordSchema, line)));
const assessments: z.input<typeof assessBody> = {
  items: dispositions.map(({ line_item_id, disposition_outcome }) => ({
    line_item_id,
    disposition_outcome,
    ...inspection,
  })),
};

export const INSPECTION_EXAMPLES = {
  gradeItems: {
    request: gradings,
    response: lines.map((line) => gradingView(create(ConditionRecordSchema, line))),
    invalid: { items: [{ line_item_id: 1 }] },
  },
  assessDispositions: {
    request: assessments,
    response: dispositions,
    invalid: { items: [] },
  },
} satisfies Record<string, OperationExample>;

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

const arrived: z.input<typeof arrivalBody> = {
  return_id: Number(RETURN_ID),
  destination_id: Number(DESTINATION_ID),
  arrived_at: TIMES.delivered,
  items: LINE_ITEM_IDS.map((id, at) => ({
    line_item_id: Number(id),
    quantity: 1,
    damaged_quantity: at,
  })),
};

function expectedLine({ lineItemId, sku, barcode, title, quantity }: LineItem) {
  return create(ExpectedLineSchema, {
    returnId: RETURN_ID,
    lineItemId,
    orderName: `#${SERIAL}`,
    sku,
    barcode,
    title,
    expectedQuantity: quantity,
    destinationId: DESTINATION_ID,
    trackingNumber: label.tracking_number ?? '',
  });
}

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
  listExpected: {
    response: expectedPageView({
      lines: exampleReturn().lineItems.map(expectedLine),
      nextCursor: '',
    }),
    invalid: 'limit=1000',
  },
  recordArrival: {
    request: arrived,
    response: arrivalView(
      create(ArrivalSchema, {
        id: 1n,
        returnId: RETURN_ID,
        returnState: ReturnState.OPEN,
        items: LINE_ITEM_IDS.map((lineItemId, at) => ({
          lineItemId,
          quantity: 1,
          damagedQuantity: at,
        })),
      }),
    ),
    conflict: keyReused(),
    invalid: { return_id: Number(RETURN_ID), items: [] },
  },
  recordGiftCard: {
    request: issued,
    response: card,
    conflict: conflict('the gift card of the return was recorded'),
    invalid: { ...issued, amount: 87 },
  },
} satisfies Record<string, OperationExample>;

const ret = exampleReturn();

/** The totals that a row of the list has. */
function summaryTotals(totals: Totals | undefined) {
  const { total = '', refund = '', returnCreditTotal = '', handlingFee = '' } = totals ?? {};
  return { total, refund, returnCreditTotal, handlingFee };
}

function summary() {
  const { id, state, type, outcome, returnMethod, currency, presentmentCurrency, destinationId } =
    ret;
  const [label] = ret.labels;
  return create(ReturnSummarySchema, {
    id,
    state,
    type,
    outcome,
    returnMethod,
    currency,
    presentmentCurrency,
    destinationId,
    ...(ret.order && { order: ret.order }),
    ...(ret.createdAt && { createdAt: ret.createdAt }),
    ...(ret.updatedAt && { updatedAt: ret.updatedAt }),
    totals: summaryTotals(ret.totals),
    presentmentTotals: summaryTotals(ret.presentmentTotals),
    labelStatus: label?.status ?? LabelStatus.UNSPECIFIED,
    ...(label?.updatedAt && { labelUpdatedAt: label.updatedAt }),
    carrier: label?.carrier ?? '',
    trackingNumber: label?.trackingNumber ?? '',
  });
}

/** The refund that processing requested of the commerce provider. */
function refundEffect() {
  return create(EffectSchema, {
    kind: EffectKind.REFUND,
    key: `rms:return:${RETURN_ID}:5f0c1d9a4b7e4c02a6d38f51b2e94c70:refund`,
    state: EffectState.MADE,
    amount: { value: ret.presentmentTotals?.refund ?? '', currency: ret.presentmentCurrency },
    requestedAt: timestampFromDate(AT.processed),
    answeredAt: timestampFromDate(AT.closed),
    providerId: String(PROVIDER_IDS),
  });
}

/** The first two entries of the return's timeline, newest first. */
function firstEntries() {
  const entry = (id: bigint, at: Date, happened: { kind: string; text: string }) => {
    const of = { id, returnId: RETURN_ID, occurredAt: timestampFromDate(at) };
    const actor = { kind: Actor_Kind.SERVICE, id: 'storefront', name: 'storefront' };
    return create(TimelineEntrySchema, { ...of, ...happened, actor });
  };
  const entries = [
    entry(2n, AT.labelled, { kind: 'label.created', text: 'A label was made by Sample Post' }),
    entry(1n, AT.submitted, { kind: 'return.submitted', text: 'The shopper submitted the return' }),
  ];
  return { entries, nextCursor: '' };
}

const fraud = {
  category: 'item-is-worn',
  comment: 'The scarf is torn and stained.',
} as const satisfies z.input<typeof fraudReportBody>;
const report: FraudReportObject = {
  id: 1,
  return_id: Number(RETURN_ID),
  ...fraud,
  created_at: isoTime(AT.reported),
};

const refusal = {
  message: 'The return is flagged: a user must review it before it can be processed.',
  code: 'UNPROCESSABLE_FLAGGED_RETURN',
};

/** A sample order of the demo shop (services/commerce/sample-orders.ts), which is always ten days old. */
const eligible: EligibilityObject = {
  order_name: '#T10',
  provider_order_id: 900_010_000_000,
  ordered_at: '2026-11-11T10:00:00+00:00',
  currency: 'GBP',
  presentment_currency: 'GBP',
  policy_version: 1,
  outcomes: ['refund', 'credit'],
  return_methods: ['mail', 'in_store'],
  lines: [
    {
      provider_line_item_id: 9_000_100_000_000,
      sku: 'SAMPLE-MUG',
      title: 'Mug',
      variant_title: 'Blue',
      image: null,
      ordered_quantity: 2,
      returnable_quantity: 2,
      window_ends_at: '2026-12-14T10:00:00+00:00',
      price: '20.00',
      refund: '24.00',
      outcomes: ['refund', 'credit'],
      reasons: [],
    },
    {
      provider_line_item_id: 9_000_100_000_001,
      sku: 'SAMPLE-SCARF',
      title: 'Scarf',
      variant_title: null,
      image: null,
      ordered_quantity: 1,
      returnable_quantity: 0,
      window_ends_at: '2026-12-14T10:00:00+00:00',
      price: '0.00',
      refund: '0.00',
      outcomes: ['refund', 'credit'],
      reasons: [{ code: 'FINAL_SALE', message: 'It was a final sale.' }],
    },
  ],
};
const submitted: z.input<typeof submissionBody> = {
  order_name: eligible.order_name,
  email: 'shopper@example.com',
  items: [{ provider_line_item_id: 9_000_100_000_000, quantity: 1, reason: 'too_small' }],
  outcome: 'refund',
  return_method: 'mail',
};

export const RETURN_EXAMPLES = {
  listReturns: {
    response: returnPageView({ summaries: [summary()], nextCursor: '' }),
    invalid: 'limit=1000',
  },
  getReturnDetails: {
    response: returnDetailsView(ret),
    invalid: `return_id=${RETURN_ID}&order_id=${ret.order?.id}`,
  },
  getEligibility: {
    response: eligible,
    conflict: noOrderLookUp(),
    invalid: 'order_name=%231&provider_order_id=1',
  },
  submitReturn: {
    request: submitted,
    response: returnDetailsView(ret),
    conflict: keyReused(),
    rejected: notEligible('order line 9000100000001 cannot be returned: It was a final sale.', [
      { provider_line_item_id: 9_000_100_000_001, code: 'FINAL_SALE' },
    ]),
    invalid: { order_name: '#T10', items: [] },
  },
  createFraudReport: {
    request: fraud,
    response: report,
    conflict: reportExists(),
    invalid: { category: 'other' },
  },
  listEffects: { response: { effects: [effectView(refundEffect())] } },
  cancelReturn: {
    request: { reason: 'The shopper keeps the goods.' },
    response: returnDetailsView({ ...ret, state: ReturnState.CANCELLED }),
    conflict: notCancellable('the return is closed'),
    invalid: { reason: 7 },
  },
  getReturnTimeline: { response: timelinePageView(firstEntries()), invalid: 'limit=1000' },
  processReturn: {
    request: { warehouse_reference: 'WH-4711', priority: true },
    responses: {
      queued: { summary: 'The return is queued, or was before', value: true },
      flagged: { summary: 'The return cannot be processed', value: { errors: refusal } },
    },
    invalid: { warehouse_reference: ['WH-4711'] },
  },
} satisfies Record<string, OperationExample>;

/** The examples of every operation. Together they show what happens to one return of the demo shop. */
export const EXAMPLES: Readonly<Record<OperationId, OperationExample>> = {
  ...WEBHOOK_EXAMPLES,
  ...REPLAY_EXAMPLES,
  ...INSPECTION_EXAMPLES,
  ...LOGISTICS_EXAMPLES,
  ...POLICY_EXAMPLES,
  ...RETURN_EXAMPLES,
  ...CART_EXAMPLES,
};
