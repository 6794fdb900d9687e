import { create } from '@bufbuild/protobuf';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import {
  DestinationSchema,
  type GetDestinationResponse,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { GetReportRequest } from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import type { Customer, Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  CheckReturnResponse,
  FindReturnRequest,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { reasonOf } from '../../services/platform/values/errors.ts';
import type { ActionContext } from '../actions/context.ts';
import { findReturn } from '../actions/returns.ts';
import type { RightName } from '../actions/rights.ts';
import { notFound } from './fields.ts';

// The calls about returns whose responses have more than the page shows.

type Fields<Request> = Omit<Request, '$typeName'>;

/** The page shows no address of the shopper, and nothing about how an upsell was paid. */
export async function readReturn(context: ActionContext, { selector }: Fields<FindReturnRequest>) {
  if (selector.case === undefined) throw notFound('return');
  // Calls that read the same return together share it, so it is copied.
  const found = await findReturn(context, selector);
  const customer = found.customer && { customer: withoutAddress(found.customer) };
  return { return: { ...found, upsellPaymentReference: '', ...customer } };
}

function withoutAddress({ address: _, ...customer }: Customer): Customer {
  return customer;
}

/** The page shows no card to which an instant refund is charged. */
export function hideCards({ instantRefunds }: CheckReturnResponse): void {
  for (const paid of instantRefunds) paid.chargeReference = '';
}

/** After a change the page reads the return again. */
export function withoutReturn(response: { return?: Return | undefined }): void {
  delete response.return;
}

/** Empty without a report: that there is none is no error of the page. */
export async function readReport({ services }: ActionContext, request: Fields<GetReportRequest>) {
  try {
    return await services.fraud.getReport(request);
  } catch (error) {
    if (reasonOf(error) !== ErrorReason.FRAUD_REPORT_NOT_FOUND) throw error;
    return {};
  }
}

/** Everybody who sees a return sees the name of its destination. */
export function hidePlace(
  response: GetDestinationResponse,
  may: (right: RightName) => boolean,
): void {
  const { destination } = response;
  if (!destination || may('seeDestinations')) return;
  const { id, name } = destination;
  response.destination = create(DestinationSchema, { id, name });
}
