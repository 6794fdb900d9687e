import { returnDetails } from './details/return-details.ts';
import { NOT_FOUND } from './errors.ts';
import { body, type Operation, returnsRules } from './operation.ts';
import { eligibility } from './resources/eligibility.ts';
import * as shapes from './resources/errors.ts';
import { policy } from './resources/policy.ts';
import { submissionBody } from './resources/submission.ts';
import { cancelBody, timelinePage } from './resources/timeline.ts';

/** The operations that storefronts and readers of returns call: on the policy, and on one return. */
export const RETURN_OPERATIONS: readonly Operation[] = [
  {
    ...returnsRules,
    id: 'getEligibility',
    method: 'GET',
    path: '/orders/eligibility',
    scopes: ['returns:read', 'returns:submit'],
    notFound: NOT_FOUND.order,
    query: true,
    success: { status: 200, schema: eligibility },
    summary: 'Get eligibility',
    description:
      "What of an order may be returned now, as the shop's return policy says, and what a refund of it would pay, before fees. The order is looked up at the shop's commerce platform. The 404 does not say whether there is no such order, or whether it has another e-mail address. 409: the platform cannot look up orders. 503: it does not answer.",
    tag: 'Returns',
    errors: {
      404: [shapes.errorsMessage],
      409: [shapes.noOrderLookUp],
      422: [shapes.messageError],
    },
  },
  {
    ...returnsRules,
    id: 'submitReturn',
    method: 'POST',
    path: '/returns',
    scopes: ['returns:submit'],
    notFound: NOT_FOUND.order,
    body: body(submissionBody),
    keyed: 'required',
    success: { status: 201, schema: returnDetails, headers: ['Location'] },
    summary: 'Submit return',
    description:
      "Submits a return of units of an order, for a shopper. All amounts come from the order at the shop's commerce platform, and the fee from the return policy. Lines that may not be returned are refused (422 `NOT_ELIGIBLE`), and nothing is written. `exchange` gives the same variant at equal value. A platform that cannot look up orders (409 `NO_ORDER_LOOKUP`) needs `order` with the amounts. A repeat with the same `Idempotency-Key` and content is a 200 with the same return. The event `return.created` follows.",
    tag: 'Returns',
    errors: {
      404: [shapes.errorsMessage],
      409: [shapes.noOrderLookUp, shapes.keyReused],
      422: [shapes.messageError, shapes.notEligible],
    },
  },
  {
    ...returnsRules,
    id: 'getPolicy',
    method: 'GET',
    path: '/policy',
    scopes: ['returns:read', 'returns:submit'],
    success: { status: 200, schema: policy },
    summary: 'Get policy',
    description:
      'What the shop takes back, and how. Each change is a new version; a return names the one that judged it. A part that allows everything is empty or null.',
    tag: 'Returns',
    errors: {},
  },
  {
    ...returnsRules,
    id: 'cancelReturn',
    method: 'POST',
    path: '/returns/{id}/cancel',
    scopes: ['returns:submit'],
    notFound: NOT_FOUND.return,
    body: body(cancelBody, { required: false }),
    keyed: 'state',
    success: { status: 200, schema: returnDetails },
    summary: 'Cancel return',
    description:
      'Cancels a return that is open or in review, and its open label request. This cannot be undone. The response for a return that is cancelled already is the same. If an exchange order was placed, it is cancelled first: the state does not change until then. A return that is processed or being processed is rejected (409). With `returns:submit` alone, only returns that storefront keys, or the same app, submitted exist. The event `return.updated` follows.',
    tag: 'Returns',
    errors: {
      404: [shapes.errorsMessage],
      409: [shapes.notCancellable],
      422: [shapes.messageError],
    },
  },
  {
    ...returnsRules,
    id: 'getReturnTimeline',
    method: 'GET',
    path: '/returns/{id}/timeline',
    scopes: ['returns:read'],
    notFound: NOT_FOUND.return,
    query: true,
    success: { status: 200, schema: timelinePage },
    summary: 'Get return timeline',
    description: 'What happened to a return and who did it, newest first.',
    tag: 'Returns',
    errors: { 404: [shapes.errorsMessage], 422: [shapes.messageError] },
  },
];
