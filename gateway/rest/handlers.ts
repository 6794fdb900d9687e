import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { ProcessReturnResponse_Refused_Code as RefusedCode } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { returnDetailsView } from '../../services/contract/details/return-details.ts';
import { NOT_FOUND } from '../../services/contract/errors.ts';
import type { DetailsSelector } from '../../services/contract/resources/details-query.ts';
import { cartView } from '../../services/contract/views/cart.ts';
import { destinationView } from '../../services/contract/views/destination.ts';
import { dispositionView } from '../../services/contract/views/disposition.ts';
import { effectView } from '../../services/contract/views/effect.ts';
import { fraudReportView } from '../../services/contract/views/fraud-report.ts';
import { giftCardView } from '../../services/contract/views/gift-card.ts';
import { gradingView } from '../../services/contract/views/grading.ts';
import { recordedLabelView } from '../../services/contract/views/recorded-label.ts';
import { returnPageView } from '../../services/contract/views/return-summary.ts';
import { reasonOf } from '../../services/platform/errors.ts';
import { createCart, getCart } from '../actions/carts.ts';
import { getDestination, listDestinations, updateDestination } from '../actions/destinations.ts';
import {
  assessDispositions,
  gradeItems,
  missingGoods,
  missingIn,
} from '../actions/dispositions.ts';
import { createFraudReport } from '../actions/fraud.ts';
import { recordGiftCard } from '../actions/gift-cards.ts';
import { recordLabel, updateLabel } from '../actions/labels.ts';
import { listReturns } from '../actions/list-returns.ts';
import { findReturn, listEffects, type ProcessResult, processReturn } from '../actions/returns.ts';
import { HttpError } from '../errors.ts';
import { HINT } from '../http/help-headers.ts';
import type { Handlers, ResponseHeaders } from './handler.ts';
import { WEBHOOK_HANDLERS } from './webhook-handlers.ts';

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
  listReturns: async ({ context, query }) => returnPageView(await listReturns(context, query)),
  getReturnDetails: async ({ context, query }) =>
    returnDetailsView(
      await findReturn(context, query.selector).catch(withNameHint(query.selector)),
      query.currencyType,
    ),
  createFraudReport: async ({ context, id, body, idempotencyKey }) =>
    fraudReportView(await createFraudReport(context, id, body, idempotencyKey)),
  listEffects: async ({ context, id }) => ({
    effects: (await listEffects(context, id)).map(effectView),
  }),
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
