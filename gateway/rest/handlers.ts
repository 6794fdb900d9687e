import type { ServerResponse } from 'node:http';
import { ConnectError } from '@connectrpc/connect';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { ProcessReturnResponse_Refused_Code as RefusedCode } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SubscriptionStatus } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { returnDetailsResponse } from '../../services/contract/details/return-details.ts';
import { NOT_FOUND } from '../../services/contract/errors.ts';
import type { OperationId } from '../../services/contract/operation.ts';
import type { DetailsSelector } from '../../services/contract/resources/details-query.ts';
import { PAYLOAD_VERSION_HEADER } from '../../services/contract/resources/webhook.ts';
import type { BodyOf, QueryOf } from '../../services/contract/validate/validate.ts';
import { arrivalView, expectedPageView } from '../../services/contract/views/arrival.ts';
import { deliveryPageView, deliveryView } from '../../services/contract/views/delivery.ts';
import { eligibilityView } from '../../services/contract/views/eligibility.ts';
import {
  cartView,
  destinationView,
  dispositionView,
  effectView,
  fraudReportView,
  giftCardView,
  gradingView,
  recordedLabelView,
} from '../../services/contract/views/objects.ts';
import { policyView } from '../../services/contract/views/policy.ts';
import { returnPageView } from '../../services/contract/views/return-summary.ts';
import { timelinePageView } from '../../services/contract/views/timeline.ts';
import { textOrNull } from '../../services/contract/views/values.ts';
import {
  createdWebhookView,
  warningsOf,
  webhookSecretView,
  webhookView,
} from '../../services/contract/views/webhook.ts';
import { replayView } from '../../services/contract/views/webhook-replay.ts';
import { fieldOf, invalidField, reasonOf } from '../../services/platform/values/errors.ts';
import { listExpected, recordArrival } from '../actions/arrivals.ts';
import { createCart, getCart } from '../actions/carts.ts';
import { type ActionContext, sent } from '../actions/context.ts';
import { listDeliveries, replayDelivery, retryDeliveries } from '../actions/deliveries.ts';
import { getDestination, listDestinations, updateDestination } from '../actions/destinations.ts';
import {
  assessDispositions,
  gradeItems,
  missingGoods,
  missingIn,
} from '../actions/dispositions.ts';
import { createFraudReport } from '../actions/fraud.ts';
import { getPolicy } from '../actions/policy.ts';
import {
  findReturn,
  listEffects,
  type ProcessResult,
  processReturn,
  recordGiftCard,
  recordLabel,
  updateLabel,
} from '../actions/returns.ts';
import { ensureCancelled } from '../actions/review.ts';
import { listReturns } from '../actions/search-returns.ts';
import { getEligibility, submitReturn } from '../actions/submissions.ts';
import { getTimeline } from '../actions/timeline.ts';
import {
  cancelReplay,
  getReplay,
  listReplays,
  previewReplay,
  startReplay,
} from '../actions/webhook-replays.ts';
import {
  endEarlierSecrets,
  revealSecret,
  rotateSecret,
  sendTest,
} from '../actions/webhook-secrets.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  updateWebhook,
} from '../actions/webhooks.ts';
import { HttpError } from '../errors.ts';
import { addHint, HINT } from '../http/help-headers.ts';

/** Headers that a handler adds to the response, for values that the interface does not allow in the body. */
interface ResponseHeaders {
  /** Names the API version in which later events are sent, such as `2026-10`. */
  payloadVersion(version: string): void;
  /** Tells people what the caller probably wanted. @param text in ASCII. */
  hint(text: string): void;
  /** Says where the details of the created return are. */
  createdReturn(id: bigint): void;
}

/** A request that has passed all checks. */
export interface RestRequest<K extends OperationId> {
  readonly context: ActionContext;
  /** The id in the path; 0 when there is none. */
  readonly id: bigint;
  /** The `webhook-id` in the path; empty when there is none. */
  readonly deliveryId: string;
  /** The token of a cart in the path, a secret; empty when there is none. */
  readonly token: string;
  /** The idempotency key for the service; empty for operations without one. */
  readonly idempotencyKey: string;
  readonly body: BodyOf<K>;
  readonly query: QueryOf<K>;
  readonly headers: ResponseHeaders;
  /** Says that an earlier request had this result. Then the status is 200. */
  repeated(): void;
}

/** Returns the response body in the newest version; undefined when the operation has no response body. */
type RestHandler<K extends OperationId> = (request: RestRequest<K>) => Promise<unknown>;

/** A handler of each operation. */
type Handlers = { readonly [K in OperationId]: RestHandler<K> };

/** The headers that a handler adds to a response. */
export function responseHeaders(
  res: ServerResponse,
  o: { readonly version: string },
): ResponseHeaders {
  return {
    createdReturn: (id) =>
      res.setHeader('Location', `/api/${o.version}/warehouse/return/details?return_id=${id}`),
    payloadVersion: (version) => res.setHeader(PAYLOAD_VERSION_HEADER, version),
    hint: (text) => addHint(res, text),
  };
}

/** The handlers of the operations on webhooks. */
const WEBHOOK_HANDLERS = {
  listWebhooks: async ({ context }) =>
    (await listWebhooks(context, { health: true })).map(webhookView),
  getWebhook: async ({ context, id }) => webhookView(await getWebhook(context, id)),
  createWebhook: async ({ context, body, idempotencyKey }) => {
    const { subscription, ...made } = await createWebhook(context, body, idempotencyKey);
    return createdWebhookView(sent(subscription, 'subscription'), made);
  },
  updateWebhook: async ({ context, id, body, headers }) => {
    const { subscription, payloadVersion, equal } = await updateWebhook(context, id, body);
    // In the interface, this response has no body. So the version and the hints are in headers.
    headers.payloadVersion(payloadVersion);
    for (const { message } of warningsOf(subscription, equal)) headers.hint(message);
    if (body.status === undefined && subscription.status === SubscriptionStatus.INACTIVE) {
      headers.hint('the webhook stays inactive and gets no events; status active activates it');
    }
  },
  deleteWebhook: ({ context, id }) => deleteWebhook(context, id),
  listDeliveries: async ({ context, id, query }) =>
    deliveryPageView(await listDeliveries(context, id, query)),
  retryDeliveries: async ({ context, id: subscriptionId, idempotencyKey, headers }) => {
    const { count, more } = await retryDeliveries(context, { subscriptionId, idempotencyKey });
    const { backlog, health } = await getWebhook(context, subscriptionId, { backlog: true });
    if (health?.pausedSince !== undefined) {
      headers.hint(
        'the webhook is paused: one delivery is tried first, the others when it succeeds',
      );
    }
    return { deliveries: count, more, waiting: backlog?.count ?? 0 };
  },
  replayDelivery: async ({ context, id, deliveryId }) =>
    deliveryView(await replayDelivery(context, { subscriptionId: id, deliveryId })),
  testWebhook: async ({ context, id, body, idempotencyKey }) => {
    const options = { trigger: body.trigger ?? undefined, idempotencyKey };
    return deliveryView(await sendTest(context, id, options));
  },
  rotateWebhookSecret: async ({ context, id, body, idempotencyKey }) => {
    const options = { overlapHours: body.overlap_hours ?? undefined, idempotencyKey };
    return webhookSecretView(await rotateSecret(context, id, options));
  },
  getWebhookSecret: async ({ context, id }) => ({
    secrets: (await revealSecret(context, id)).map(webhookSecretView),
  }),
  endEarlierSecrets: ({ context, id }) => endEarlierSecrets(context, id),
  previewReplay: ({ context, body }) => previewReplay(context, body),
  startReplay: async ({ context, body, idempotencyKey }) =>
    replayView(await startReplay(context, body, idempotencyKey)),
  listReplays: async ({ context, query }) => {
    const { replays, nextCursor } = await listReplays(context, query);
    return { replays: replays.map(replayView), next_cursor: textOrNull(nextCursor) };
  },
  getReplay: async ({ context, id }) => replayView(await getReplay(context, id)),
  cancelReplay: async ({ context, id }) => replayView(await cancelReplay(context, id)),
} satisfies Partial<Handlers>;

/** The handler of each operation: it calls the RPC and converts the result. */
export const HANDLERS: Handlers = {
  ...WEBHOOK_HANDLERS,
  assessDispositions: async ({ context, body, idempotencyKey, headers }) => {
    const recorded = await assessDispositions(context, body, idempotencyKey);
    hintAtMissing(headers, missingIn(recorded));
    return recorded.map(dispositionView);
  },
  gradeItems: async ({ context, body, idempotencyKey }) =>
    (await gradeItems(context, body, idempotencyKey)).map(gradingView),
  listDestinations: async ({ context }) => ({
    destinations: (await listDestinations(context)).map(destinationView),
  }),
  getDestination: async ({ context, id }) => destinationView(await getDestination(context, id)),
  updateDestination: async ({ context, id, body }) =>
    destinationView(await updateDestination(context, id, body)),
  getPolicy: async ({ context }) => policyView(await getPolicy(context)),
  listExpected: async ({ context, query }) => expectedPageView(await listExpected(context, query)),
  recordArrival: async ({ context, body, idempotencyKey, repeated }) => {
    const recorded = await recordArrival(context, body, idempotencyKey);
    if (recorded.repeated) repeated();
    return arrivalView(sent(recorded.arrival, 'arrival'));
  },
  listReturns: async ({ context, query }) => returnPageView(await listReturns(context, query)),
  getReturnDetails: async ({ context, query }) =>
    returnDetailsResponse(
      await findReturn(context, query.selector).catch(withNameHint(query.selector)),
      query.currencyType,
    ),
  getEligibility: async ({ context, query }) =>
    eligibilityView(await getEligibility(context, query)),
  submitReturn: async ({ context, body, idempotencyKey: key, headers, repeated }) => {
    if (body.override_policy && context.access?.mayOverridePolicy === false) {
      throw invalidField('override_policy', 'needs a credential with the scope returns');
    }
    const made = await submitReturn(context, body, { key }).catch(inTermsOf(body));
    if (made.repeated) repeated();
    headers.createdReturn(made.return.id);
    return returnDetailsResponse(made.return);
  },
  createFraudReport: async ({ context, id, body, idempotencyKey }) =>
    fraudReportView(await createFraudReport(context, id, body, idempotencyKey)),
  listEffects: async ({ context, id }) => ({
    effects: (await listEffects(context, id)).map(effectView),
  }),
  cancelReturn: async ({ context, id: returnId, body, idempotencyKey }) => {
    const reason = body.reason ?? undefined;
    const cancelled = await ensureCancelled(context, { returnId, reason, idempotencyKey });
    return returnDetailsResponse(cancelled);
  },
  getReturnTimeline: async ({ context, id: returnId, query }) =>
    timelinePageView(await getTimeline(context, { returnId, ...query })),
  recordLabel: async ({ context, id, body, idempotencyKey: key }) =>
    recordedLabelView(await recordLabel(context, body, { returnId: id, key })),
  updateLabel: async ({ context, id, body }) =>
    recordedLabelView(await updateLabel(context, id, body)),
  recordGiftCard: async ({ context, id, body, idempotencyKey: key }) =>
    giftCardView(await recordGiftCard(context, body, { returnId: id, key })),
  processReturn: async ({ context, id, body, idempotencyKey, headers }) => {
    const options = { returnId: id, details: body, source: 'warehouse', idempotencyKey } as const;
    const { result, missingLineItemIds } = await processReturn(context, options);
    hintAtMissing(headers, missingLineItemIds);
    return processBodyOf(result);
  },
  createCart: async ({ context, body, idempotencyKey }) =>
    cartView(await createCart(context, body, idempotencyKey)),
  getCart: async ({ context, token }) => cartView(await getCart(context, token)),
};

/** Rethrows an error about a field of the service's request with the name of the field in the body. */
function inTermsOf({ items, order }: BodyOf<'submitReturn'>): (error: unknown) => never {
  const lines = items ? 'items' : 'order.lines';
  return (error) => {
    const field = fieldOf(error);
    if (field === undefined || reasonOf(error) !== ErrorReason.INVALID_FIELD) throw error;
    const text = error instanceof ConnectError ? error.rawMessage : String(Object(error).message);
    const named = field
      .replace(/^lines\b/, lines)
      .replace(/^order\.name$/, order ? 'order.name' : 'order_name')
      .replace(
        /^order\.provider_order_id$/,
        order ? 'order.provider_order_id' : 'provider_order_id',
      )
      .replace(/^((?:presentment_)?currency|customer\b.*)$/, 'order.$1');
    throw invalidField(named, text.replace(field, '').trim());
  };
}

function hintAtMissing(headers: ResponseHeaders, missing: readonly bigint[]): void {
  const hint = missingGoods(missing);
  if (hint !== undefined) headers.hint(hint);
}

const PUBLIC_CODES: ReadonlyMap<number, string> = new Map([
  [RefusedCode.UNPROCESSABLE_FLAGGED_RETURN, 'UNPROCESSABLE_FLAGGED_RETURN'],
  [RefusedCode.UNPROCESSABLE_RETURN, 'UNPROCESSABLE_RETURN'],
  [RefusedCode.NO_COMMERCE_PROVIDER, 'UNPROCESSABLE_RETURN'],
]);

/** Interface, Process return: the body is `true` when the return is queued, else an error. Both have the status 200. */
function processBodyOf(result: ProcessResult): unknown {
  if (result.case === undefined) throw new Error('the response of the service has no result');
  if (result.case !== 'refused') return true;
  const { code, message } = result.value;
  const name = PUBLIC_CODES.get(code);
  if (name === undefined) throw new Error('the service rejected the return without a code');
  return { errors: { message, code: name } };
}

/**
 * For a 404: says in a header that the caller may have left out the `#` of an order name. The interface fixes the body.
 */
function withNameHint(selector: DetailsSelector): (error: unknown) => never {
  return (error) => {
    const isName = selector.case === 'orderName' && !selector.value.startsWith('#');
    if (!isName || reasonOf(error) !== ErrorReason.RETURN_NOT_FOUND) throw error;
    const name = encodeURIComponent(selector.value.toWellFormed());
    const hint = `names of orders usually begin with #: try order_name=%23${name}`;
    throw new HttpError(NOT_FOUND.returnDetails, {
      headers: { [HINT]: hint },
      cause: error,
    });
  };
}
