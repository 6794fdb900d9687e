import type { SubmitReturnRequest } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { normalForm } from '../../platform/text.ts';

/** Returns a submission whose identities are in their normal form, for the comparison with an earlier one. */
export function normalRequest(request: SubmitReturnRequest): SubmitReturnRequest {
  const { order, lines, exchanges } = request;
  return {
    ...request,
    correctTexts: false,
    ...(order && { order: { ...order, name: normalForm(order.name) } }),
    lines: lines.map((line) => ({
      ...line,
      sku: normalForm(line.sku),
      providerLineItemExternalId: normalForm(line.providerLineItemExternalId),
    })),
    exchanges: exchanges.map((one) => ({ ...one, sku: normalForm(one.sku) })),
  };
}
