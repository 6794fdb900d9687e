import { DESTINATION_OPERATIONS } from './destination-operations.ts';
import { returnDetails } from './details/return-details.ts';
import { NOT_FOUND } from './errors.ts';
import { GIFT_CARD_OPERATIONS } from './gift-card-operations.ts';
import { LABEL_OPERATIONS } from './label-operations.ts';
import { DISPOSITIONS_BODY_BYTES_MAX } from './limits.ts';
import { body, keyRules, type Operation } from './operation.ts';
import { cart, cartBody } from './resources/cart.ts';
import { assessBody, dispositionList } from './resources/disposition.ts';
import { effectList } from './resources/effect.ts';
import * as shapes from './resources/errors.ts';
import { fraudReport, fraudReportBody } from './resources/fraud-report.ts';
import { gradeBody, gradingList } from './resources/grading.ts';
import { processBody, processResponse } from './resources/process.ts';
import { returnPage } from './resources/return-summary.ts';
import { WEBHOOK_OPERATIONS } from './webhook-operations.ts';
import { WEBHOOK_REPLAY_OPERATIONS } from './webhook-replay-operations.ts';
import { WEBHOOK_SECRET_OPERATIONS } from './webhook-secret-operations.ts';

/**
 * The REST operations as one table (interface: Endpoints). The router, the OpenAPI documents, the 405 responses and the
 * tests of scopes and errors are made from it.
 */
export const OPERATIONS: readonly Operation[] = [
  ...WEBHOOK_OPERATIONS,
  ...WEBHOOK_SECRET_OPERATIONS,
  ...WEBHOOK_REPLAY_OPERATIONS,
  {
    ...keyRules,
    id: 'assessDispositions',
    method: 'POST',
    path: '/dispositioning/assess',
    scope: 'returns',
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
    ...keyRules,
    id: 'gradeItems',
    method: 'POST',
    path: '/dispositioning/grade',
    scope: 'returns',
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
  {
    ...keyRules,
    id: 'listReturns',
    method: 'GET',
    path: '/warehouse/returns',
    scope: 'returns',
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
    ...keyRules,
    id: 'getReturnDetails',
    method: 'GET',
    path: '/warehouse/return/details',
    scope: 'returns',
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
    scope: 'returns',
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
    ...keyRules,
    id: 'listEffects',
    method: 'GET',
    path: '/returns/{id}/effects',
    scope: 'returns',
    notFound: NOT_FOUND.return,
    success: { status: 200, schema: effectList },
    addition: true,
    summary: 'List effects',
    description:
      'What processing requested of the commerce provider for a return: exchange order, gift card, refund and restock, each with its key, its amount and what is known of it.',
    tag: 'Returns',
    errors: { 404: [shapes.errorsMessage] },
  },
  ...LABEL_OPERATIONS,
  ...GIFT_CARD_OPERATIONS,
  {
    ...keyRules,
    id: 'processReturn',
    method: 'POST',
    path: '/warehouse/return/{id}/process',
    scope: 'returns',
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
    scope: 'carts',
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
    scope: 'carts',
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
