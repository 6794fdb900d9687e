import type { z } from 'zod';
import { returnDetails } from './details/return-details.ts';
import { NOT_FOUND, type PublicError } from './errors.ts';
import { BODY_BYTES_MAX, DISPOSITIONS_BODY_BYTES_MAX } from './limits.ts';
import { cart, cartBody } from './resources/cart.ts';
import { delivery, deliveryPage } from './resources/delivery.ts';
import { destination, destinationBody } from './resources/destination.ts';
import { assessBody, dispositionList } from './resources/disposition.ts';
import { effectList } from './resources/effect.ts';
import * as shapes from './resources/errors.ts';
import { fraudReport, fraudReportBody } from './resources/fraud-report.ts';
import { processBody, processResponse } from './resources/process.ts';
import { createdWebhook, webhookBody, webhookList } from './resources/webhook.ts';

/**
 * The REST operations as one table (interface: Endpoints). The router, the OpenAPI documents, the 405 responses and the
 * tests of scopes and errors are made from it.
 */

export type OperationId =
  | 'listWebhooks'
  | 'createWebhook'
  | 'updateWebhook'
  | 'deleteWebhook'
  | 'listDeliveries'
  | 'replayDelivery'
  | 'assessDispositions'
  | 'updateDestination'
  | 'getReturnDetails'
  | 'createFraudReport'
  | 'listEffects'
  | 'processReturn'
  | 'createCart';

export type Scope =
  | 'returns'
  | 'carts'
  | 'developer_tools'
  | 'destinations:read'
  | 'destinations:write';

export interface OperationBody {
  readonly schema: z.ZodType;
  /** When false an absent body counts as `{}`. */
  readonly required: boolean;
  /** The limit after decompression. */
  readonly maxBytes: number;
  /** Whether numbers are kept as they were sent. */
  readonly exactNumbers?: boolean;
}

export interface Operation {
  readonly id: OperationId;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** The path after the version segment; `{id}` is a path id, `{delivery_id}` a `webhook-id`. */
  readonly path: string;
  readonly scope: Scope;
  /** `bearer-or-api-key`: `Authorization` when it is `Bearer`, else `X-Authorization`; `api-key`: only the latter. */
  readonly credentials: 'api-key' | 'bearer-or-api-key';
  /** The response to a valid credential without the scope. */
  readonly forbidden: 'message-403' | 'errors-401';
  /** The 404 of an id that does not exist in this shop; absent when the operation has no id. */
  readonly notFound?: PublicError;
  readonly body?: OperationBody;
  /** True when the operation reads query parameters. */
  readonly query: boolean;
  readonly success: { readonly status: number; readonly schema?: z.ZodType };
  /** True for an addition to the interface document. */
  readonly addition: boolean;
  readonly summary: string;
  readonly description: string;
  readonly tag: string;
  /** Error bodies that only this operation has, by status, in released versions. */
  readonly errors: Readonly<Record<number, readonly z.ZodType[]>>;
}

const body = (schema: z.ZodType, o: Partial<OperationBody> = {}): OperationBody => ({
  schema,
  required: true,
  maxBytes: BODY_BYTES_MAX,
  ...o,
});
const webhookRules = {
  scope: 'developer_tools',
  credentials: 'bearer-or-api-key',
  forbidden: 'errors-401',
  query: false,
  tag: 'Webhooks',
} as const;
const keyRules = {
  credentials: 'api-key',
  forbidden: 'errors-401',
  query: false,
  addition: false,
} as const;

export const OPERATIONS: readonly Operation[] = [
  {
    ...webhookRules,
    id: 'listWebhooks',
    method: 'GET',
    path: '/webhooks',
    success: { status: 200, schema: webhookList },
    addition: true,
    summary: 'List webhooks',
    description: "All of the shop's webhook subscriptions, by ascending id.",
    errors: {},
  },
  {
    ...webhookRules,
    id: 'createWebhook',
    method: 'POST',
    path: '/webhooks',
    body: body(webhookBody),
    success: { status: 201, schema: createdWebhook },
    addition: true,
    summary: 'Create webhook',
    description:
      'Adds a subscription and returns its signing secret. No other call returns it. A shop has at most 100 subscriptions, and at most 5 active ones to one host for one pair of topic and trigger.',
    errors: { 422: [shapes.messageError, shapes.webhookRefused] },
  },
  {
    ...webhookRules,
    id: 'updateWebhook',
    method: 'PUT',
    path: '/webhooks/{id}',
    notFound: NOT_FOUND.webhook,
    body: body(webhookBody),
    success: { status: 204 },
    addition: false,
    summary: 'Update webhook',
    description:
      'Changes a subscription. Waiting deliveries go to the new address. A new topic or trigger applies to later events. A shop has at most 5 active subscriptions to one host for one pair of topic and trigger.',
    errors: { 404: [shapes.webhookNotFound], 422: [shapes.messageError, shapes.webhookRefused] },
  },
  {
    ...webhookRules,
    id: 'deleteWebhook',
    method: 'DELETE',
    path: '/webhooks/{id}',
    notFound: NOT_FOUND.webhook,
    success: { status: 204 },
    addition: false,
    summary: 'Delete webhook',
    description: 'Removes a subscription. Its waiting deliveries are dropped.',
    errors: { 404: [shapes.webhookNotFound] },
  },
  {
    ...webhookRules,
    id: 'listDeliveries',
    method: 'GET',
    path: '/webhooks/{id}/deliveries',
    notFound: NOT_FOUND.webhook,
    query: true,
    success: { status: 200, schema: deliveryPage },
    addition: true,
    summary: 'List deliveries',
    description:
      'The deliveries of a webhook, sent and waiting, newest event first, for 30 days. The content of requests and responses is shown only to users of the shop.',
    errors: { 404: [shapes.webhookNotFound], 422: [shapes.messageError] },
  },
  {
    ...webhookRules,
    id: 'replayDelivery',
    method: 'POST',
    path: '/webhooks/{id}/deliveries/{delivery_id}/replay',
    notFound: NOT_FOUND.delivery,
    success: { status: 200, schema: delivery },
    addition: true,
    summary: 'Replay delivery',
    description:
      'Sends an ended delivery again, with the same `webhook-id`, the same bytes and the whole schedule of retries. A delivery that is waiting, or whose payload was removed, is rejected.',
    errors: { 404: [shapes.webhookNotFound], 409: [shapes.notReplayable] },
  },
  {
    ...keyRules,
    id: 'assessDispositions',
    method: 'POST',
    path: '/dispositioning/assess',
    scope: 'returns',
    forbidden: 'message-403',
    body: body(assessBody, { maxBytes: DISPOSITIONS_BODY_BYTES_MAX }),
    success: { status: 200, schema: dispositionList },
    summary: 'Assess dispositions',
    description:
      'Records what becomes of 1 to 30 returned line items, all or nothing. A later assessment replaces the previous one. An assessment that would make the details of a return larger than 24 MiB is rejected (422).',
    tag: 'Dispositions',
    errors: { 403: [shapes.forbidden], 422: [shapes.messageError] },
  },
  {
    ...keyRules,
    id: 'updateDestination',
    method: 'PUT',
    path: '/destinations/{id}',
    scope: 'destinations:write',
    notFound: NOT_FOUND.destination,
    body: body(destinationBody),
    success: { status: 200, schema: destination },
    summary: 'Update destination',
    description: 'Changes a warehouse or donation centre. Absent fields keep their values.',
    tag: 'Destinations',
    errors: { 404: [shapes.destinationNotFound], 422: [shapes.messageError] },
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
    notFound: NOT_FOUND.fraudReport,
    body: body(fraudReportBody, { required: false }),
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
    notFound: NOT_FOUND.effects,
    success: { status: 200, schema: effectList },
    addition: true,
    summary: 'List effects',
    description:
      'What processing requested of the commerce provider for a return: exchange order, gift card, refund and restock, each with its key, its amount and what is known of it.',
    tag: 'Returns',
    errors: { 404: [shapes.errorsMessage] },
  },
  {
    ...keyRules,
    id: 'processReturn',
    method: 'POST',
    path: '/warehouse/return/{id}/process',
    scope: 'returns',
    notFound: NOT_FOUND.processReturn,
    body: body(processBody, { required: false, exactNumbers: true }),
    success: { status: 200, schema: processResponse },
    summary: 'Process return',
    description:
      'Queues a return for processing. `true` is an acknowledgement: the event `return.closed` or `return.processing.failed` follows. If the return cannot be processed, the response is a 200 with `errors`.',
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
    success: { status: 200, schema: cart },
    summary: 'Create cart',
    description: 'Stores a cart of product variants and returns its token.',
    tag: 'Carts',
    errors: { 422: [shapes.messageError] },
  },
];
