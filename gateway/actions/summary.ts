import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { SummarizeResponse } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type ActionContext, callerOf } from './context.ts';

/** Counts the returns created from one time (inclusive) to another (exclusive), including archived ones. */
export function summarizeReturns(
  context: ActionContext,
  period: { from: Date; to: Date },
): Promise<SummarizeResponse> {
  return context.services.returns.summarize({
    ...callerOf(context),
    createdFrom: timestampFromDate(period.from),
    createdTo: timestampFromDate(period.to),
  });
}
