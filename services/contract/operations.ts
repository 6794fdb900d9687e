import { returnDetails } from './details/return-details.ts';
import { NOT_FOUND } from './errors.ts';
import { DISPOSITIONS_BODY_BYTES_MAX } from './limits.ts';
import {
  body,
  earlierReturnsRules,
  giftCardRules,
  keyRules,
  labelRules,
  type Operation,
  returnsRules,
} from './operation.ts';
import { arrival, arrivalBody, expectedPage } from './resources/arrival.ts';
import { cart, cartBody } from './resources/cart.ts';
import { destination, destinationBody, destinationList } from './resources/destination.ts';
import { effectList } from './resources/effect.ts';
import * as shapes from './resources/errors.ts';
import { fraudReport, fraudReportBody } from './resources/fraud-report.ts';
import { giftCard, giftCardBody } from './resources/gift-card.ts';
import { assessBody, dispositionList, gradeBody, gradingList } from './resources/inspection.ts';
import { labelBody, labelUpdateBody, recordedLabel } from './resources/label.ts';
import { processBody, processResponse } from './resources/process.ts';
import { returnPage } from './resources/return-list.ts';
import { RETURN_OPERATIONS } from './return-operations.ts';
import { openersAmong, SCOPES, type Scope } from './scopes.ts';
import {
  WEBHOOK_OPERATIONS,
  WEBHOOK_REPLAY_OPERATIONS,
  WEBHOOK_SECRET_OPERATIONS,
} from './webhook-operations.ts';

/** The operations on warehouses and donation centres. */
const DESTINATION_OPERATIONS: readonly Operation[] = [
  {
    ...keyRules,
    id: 'listDestinations',
    method: 'GET',
    path: '/destinations',
    scopes: ['destinations:read'],
    success: { status: 200, schema: destinationList },
    addition: true,
    summary: 'List destinations',
    description:
      "All of the shop's warehouses and donation centres, by ascending id. A shop has at most 1,000.",
    tag: 'Destinations',
    errors: {},
  },
  {
    ...keyRules,
    id: 'getDestination',
    method: 'GET',
    path: '/destinations/{id}',
    scopes: ['destinations:read'],
    notFound: NOT_FOUND.destination,
    success: { status: 200, schema: destination },
    addition: true,
    summary: 'Get destination',
    description: 'A warehouse or donation centre.',
    tag: 'Destinations',
    errors: { 404: [shapes.destinationNotFound] },
  },
  {
    ...keyRules,
    id: 'updateDestination',
    method: 'PUT',
    path: '/destinations/{id}',
    scopes: ['destinations:write'],
    notFound: NOT_FOUND.destination,
    body: body(destinationBody),
    success: { status: 200, schema: destination },
    summary: 'Update destination',
    description: 'Changes a warehouse or donation centre. Absent fields keep their values.',
    tag: 'Destinations',
    errors: { 404: [shapes.destinationNotFound], 422: [shapes.messageError] },
  },
];

/** The operations of warehouses on goods that come back. */
const WAREHOUSE_OPERATIONS: readonly Operation[] = [
  {
    ...returnsRules,
    id: 'listExpected',
    method: 'GET',
    path: '/warehouse/expected',
    scopes: ['warehouse'],
    query: true,
    success: { status: 200, schema: expectedPage },
    summary: 'List expected goods',
    description:
      'A page of the line items with units that have not arrived, of returns that are open, in review or closed and whose goods travel. A line item that arrives leaves the list.',
    tag: 'Warehouse',
    errors: { 422: [shapes.messageError] },
  },
  {
    ...returnsRules,
    id: 'recordArrival',
    method: 'POST',
    path: '/warehouse/arrivals',
    scopes: ['warehouse'],
    notFound: NOT_FOUND.arrivedReturn,
    body: body(arrivalBody),
    keyed: 'required',
    success: { status: 201, schema: arrival },
    summary: 'Record arrival',
    description:
      'Records what arrived of one return. Arrivals add up. Units above the announced ones, and what is no line item of the return, are recorded as unexpected and never paid. If several returns match, the message of the 422 names their ids: send `return_id`. Cancelled returns match only if no other return does. An arrival opens an expired return again; at a closed or cancelled return it is recorded, and pays nothing. The event `return.updated` follows.',
    tag: 'Warehouse',
    errors: {
      404: [shapes.errorsMessage],
      409: [shapes.keyReused],
      422: [shapes.messageError],
    },
  },
];

/** The operation of gift-card providers, who respond to `giftcard.requested`. */
const GIFT_CARD_OPERATIONS: readonly Operation[] = [
  {
    ...giftCardRules,
    id: 'recordGiftCard',
    method: 'POST',
    path: '/returns/{id}/gift-card',
    notFound: NOT_FOUND.return,
    body: body(giftCardBody),
    keyed: 'content',
    success: { status: 201, schema: giftCard },
    summary: 'Record gift card',
    description:
      'Records the gift card that was issued for `giftcard.requested`. Return details then show it as `gift_card_order_id`, `gift_card_order_name` and `gift_card_presentment`. A repeat with the same `Idempotency-Key` and content returns the same card; without the header, a repeat with the same content does. A return for which no card was requested, or whose card was recorded, is rejected (409). The event `return.updated` follows.',
    errors: {
      404: [shapes.errorsMessage],
      409: [shapes.errorsMessage],
      422: [shapes.messageError],
    },
  },
];

/** The operations of label providers, who respond to `label.request.issued`. */
const LABEL_OPERATIONS: readonly Operation[] = [
  {
    ...labelRules,
    id: 'recordLabel',
    method: 'POST',
    path: '/returns/{id}/labels',
    notFound: NOT_FOUND.return,
    body: body(labelBody),
    keyed: 'content',
    success: { status: 201, schema: recordedLabel },
    summary: 'Record label',
    description:
      'Adds a label to a return and fulfils its open label request: the response to `label.request.issued`. A repeat with the same `Idempotency-Key` and content returns the same label; without the header, a repeat with the same content does. A closed or cancelled return is rejected (409). The events `label.created` and `return.updated` follow.',
    errors: {
      404: [shapes.errorsMessage],
      409: [shapes.errorsMessage],
      422: [shapes.messageError],
    },
  },
  {
    ...labelRules,
    id: 'updateLabel',
    method: 'PUT',
    path: '/labels/{id}',
    notFound: NOT_FOUND.label,
    body: body(labelUpdateBody),
    success: { status: 200, schema: recordedLabel },
    summary: 'Update label',
    description:
      'Records a carrier update. An update that is older than the last one, or that comes after `delivered`, changes nothing and is not an error. The response is the label as it is now. The events `label.updated` and `return.updated` follow a change.',
    errors: { 404: [shapes.errorsMessage], 422: [shapes.messageError] },
  },
];

/**
 * The REST operations as one table (interface: Endpoints). The router, the OpenAPI documents, the 405 responses and the
 * tests of scopes and errors are made from it.
 */
export const OPERATIONS: readonly Operation[] = [
  ...WEBHOOK_OPERATIONS,
  ...WEBHOOK_SECRET_OPERATIONS,
  ...WEBHOOK_REPLAY_OPERATIONS,
  {
    ...earlierReturnsRules,
    id: 'assessDispositions',
    method: 'POST',
    path: '/dispositioning/assess',
    scopes: ['returns', 'warehouse'],
    forbidden: 'message-403',
    body: body(assessBody, { maxBytes: DISPOSITIONS_BODY_BYTES_MAX }),
    keyed: 'state',
    success: { status: 200, schema: dispositionList },
    summary: 'Assess dispositions',
    description:
      'Records what becomes of 1 to 30 returned line items, all or nothing. A later assessment replaces the previous one. An assessment that would make the details of a return larger than 24 MiB is rejected (422). If line items are recorded as `missing`, `X-Service-Hint` names them, because processing pays for them all the same.',
    tag: 'Dispositions',
    errors: { 403: [shapes.forbidden], 422: [shapes.messageError] },
  },
  {
    ...earlierReturnsRules,
    id: 'gradeItems',
    method: 'POST',
    path: '/dispositioning/grade',
    scopes: ['returns', 'warehouse'],
    forbidden: 'message-403',
    body: body(gradeBody, { maxBytes: DISPOSITIONS_BODY_BYTES_MAX }),
    keyed: 'state',
    success: { status: 200, schema: gradingList },
    addition: true,
    summary: 'Grade items',
    description:
      'Records the condition of 1 to 30 returned line items, all or nothing. A later grading replaces the previous one. An equal one changes nothing if it has the same `inspected_at`, or if it has none and comes within 60 seconds. After a 503 the gradings may be recorded: repeat the request. A grading that would make the details of a return larger than 24 MiB is rejected (422).',
    tag: 'Dispositions',
    errors: { 403: [shapes.forbidden], 422: [shapes.messageError] },
  },
  ...DESTINATION_OPERATIONS,
  ...WAREHOUSE_OPERATIONS,
  {
    ...earlierReturnsRules,
    id: 'listReturns',
    method: 'GET',
    path: '/warehouse/returns',
    scopes: ['returns', 'returns:read'],
    query: true,
    success: { status: 200, schema: returnPage },
    addition: true,
    summary: 'List returns',
    description:
      "A page of the shop's returns that match all filters, newest first. Closed returns are archived: they are in the list only with `archived` or with `state=closed`. To keep a copy, read with `archived=include`, `sort=updated_at` and `updated_from`, begin a minute before the last `updated_at` that you have, and replace what you have under the same `id`: no change is missed, also if returns change while you read. With the other orders a return that changes while you read keeps its place or moves to a page that was read.",
    tag: 'Returns',
    errors: { 422: [shapes.messageError] },
  },
  {
    ...earlierReturnsRules,
    id: 'getReturnDetails',
    method: 'GET',
    path: '/warehouse/return/details',
    scopes: ['returns', 'returns:read', 'returns:submit', 'warehouse'],
    notFound: NOT_FOUND.returnDetails,
    query: true,
    success: { status: 200, schema: returnDetails },
    summary: 'Get return details',
    description:
      'One return, selected by its id, its order id or its order name. If an order has several returns, it is the newest.',
    tag: 'Returns',
    errors: { 404: [shapes.errorsMessage], 422: [shapes.messageError] },
  },
  {
    ...keyRules,
    id: 'createFraudReport',
    method: 'POST',
    path: '/returns/{id}/fraud-report',
    scopes: ['returns'],
    notFound: NOT_FOUND.return,
    body: body(fraudReportBody, { required: false }),
    keyed: 'state',
    success: { status: 201, schema: fraudReport },
    summary: 'Create fraud report',
    description: 'Adds the fraud report of a return. A return has at most one.',
    tag: 'Returns',
    errors: {
      404: [shapes.errorsMessage],
      409: [shapes.errorsMessage],
      422: [shapes.messageError],
    },
  },
  {
    ...earlierReturnsRules,
    id: 'listEffects',
    method: 'GET',
    path: '/returns/{id}/effects',
    scopes: ['returns', 'returns:read'],
    notFound: NOT_FOUND.return,
    success: { status: 200, schema: effectList },
    addition: true,
    summary: 'List effects',
    description:
      'What processing requested of the commerce provider for a return: exchange order, gift card, refund and restock, each with its key, its amount and what is known of it.',
    tag: 'Returns',
    errors: { 404: [shapes.errorsMessage] },
  },
  ...RETURN_OPERATIONS,
  ...LABEL_OPERATIONS,
  ...GIFT_CARD_OPERATIONS,
  {
    ...keyRules,
    id: 'processReturn',
    method: 'POST',
    path: '/warehouse/return/{id}/process',
    scopes: ['returns'],
    notFound: NOT_FOUND.processReturn,
    body: body(processBody, { required: false, exactNumbers: true }),
    keyed: 'state',
    success: { status: 200, schema: processResponse },
    summary: 'Process return',
    description:
      'Queues a return for processing. `true` is an acknowledgement: the event `return.closed` or `return.processing.failed` follows. A return with an open instant refund is the exception: the response is `true`, nothing is queued, and no event follows until the refund is settled. If the return cannot be processed, the response is a 200 with `errors`. If line items are disposed as `missing`, `X-Service-Hint` names them: the whole return is paid all the same.',
    tag: 'Returns',
    errors: { 404: [shapes.processNotFound], 422: [shapes.messageError] },
  },
  {
    ...keyRules,
    id: 'createCart',
    method: 'POST',
    path: '/cart',
    scopes: ['carts'],
    body: body(cartBody, { exactNumbers: true }),
    keyed: 'header',
    success: { status: 200, schema: cart },
    summary: 'Create cart',
    description: 'Stores a cart of product variants and returns its token.',
    tag: 'Carts',
    errors: { 422: [shapes.messageError] },
  },
  {
    ...keyRules,
    id: 'getCart',
    method: 'GET',
    path: '/cart/{token}',
    scopes: ['carts'],
    notFound: NOT_FOUND.cart,
    success: { status: 200, schema: cart },
    addition: true,
    summary: 'Get cart',
    description:
      'The cart as create cart returned it, for 30 days. The token is a secret: keep it out of logs. The 404 does not say whether a token is malformed, unknown or expired.',
    tag: 'Carts',
    errors: { 404: [shapes.errorsMessage] },
  },
];

/** The scopes of partners' tokens: those that open an operation which reads tokens (interface: Authentication, 2). */
export const PARTNER_SCOPES: readonly Scope[] = SCOPES.filter((scope) =>
  OPERATIONS.some(
    (operation) =>
      operation.credentials === 'bearer-or-api-key' && openersAmong([scope], operation).length > 0,
  ),
);
