import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type Label, LabelStatusSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { LabelBody, LabelUpdateBody } from '../../services/contract/resources/label.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

const STATUS = enumText(LabelStatusSchema);

/**
 * Adds a label to a return and fulfils its open label request.
 *
 * @param o.key idempotency key of at most 200 characters; a repeat with the same key returns the first label.
 */
export async function recordLabel(
  context: ActionContext,
  body: LabelBody,
  o: { readonly returnId: bigint; readonly key: string },
): Promise<Label> {
  const { label } = await context.services.returns.recordLabel({
    ...callerOf(context),
    returnId: o.returnId,
    idempotencyKey: o.key,
    carrier: body.carrier,
    trackingNumber: body.tracking_number ?? '',
    url: body.url ?? '',
    rate: body.rate ?? '',
    lineItemIds: (body.line_item_ids ?? []).map(BigInt),
    ...(body.created_at && { createdAt: timestampFromDate(body.created_at) }),
  });
  return sent(label, 'label');
}

/**
 * Records a carrier update and returns the current label. The service ignores an update that is older than the last
 * one; this function returns the label then, too.
 */
export async function updateLabel(
  context: ActionContext,
  labelId: bigint,
  body: LabelUpdateBody,
): Promise<Label> {
  const { label } = await context.services.returns.updateLabel({
    ...callerOf(context),
    labelId,
    status: STATUS.fromText(body.status),
    occurredAt: timestampFromDate(body.occurred_at),
    trackingNumber: body.tracking_number ?? '',
  });
  return sent(label, 'label');
}
