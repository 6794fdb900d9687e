import { z } from 'zod';
import { ProcessReturnResponse_Refused_Code as RefusedCode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { PROCESS_DETAILS_MAX } from '../../../services/contract/limits.ts';
import { processBody } from '../../../services/contract/resources/process.ts';
import { missingGoods } from '../../actions/dispositions.ts';
import { type ProcessResult, processReturn as process } from '../../actions/returns.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { defineTool, ToolError } from '../tool.ts';

const RESULTS = {
  queued:
    'Processing is queued. Read the return again later: state closed means that it was processed.',
  already_queued:
    'Processing was already queued. Read the return again later: state closed means that it was processed. While it is open, get_return_timeline shows whether processing failed.',
  skipped_instant_refund:
    'The return was not processed, because it has an open instant refund, which must be completed first.',
} as const;

export const processReturn = defineTool({
  name: 'process_return',
  title: 'Process return',
  description:
    'Use this when the user has decided to process a return: exchange order, gift card, refund, and archiving. This moves money and cannot be undone: name the return, its amounts and any missing items, and let the user confirm first. A return in review is rejected until a person has unflagged it.',
  hints: {
    readOnly: {
      is: false,
      because: 'It queues the processing of the return, which moves money.',
    },
    destructive: {
      is: true,
      because: 'No tool can undo refunds, gift cards and exchange orders.',
    },
    idempotent: {
      is: true,
      because:
        'A return is processed once. The result of a repeat says that it is already queued or closed.',
    },
    openWorld: {
      is: true,
      because: 'The commerce platform pays refunds, issues gift cards and places orders.',
    },
  },
  input: z.strictObject({
    return_id: returnId,
    details: processBody
      .optional()
      .describe(
        `Up to ${PROCESS_DETAILS_MAX} values by name, for new orders and the timeline. Omit it unless the user asks for it`,
      ),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({
    return_id: z.int(),
    result: z.enum(['queued', 'already_queued', 'skipped_instant_refund']),
    next_step: z.string(),
  }),
  subject: ({ return_id }) => String(return_id),
  async run(context, { return_id, details = {} }) {
    const response = await process(context, {
      returnId: BigInt(return_id),
      details,
      source: 'api',
      idempotencyKey: context.callId,
    });
    const result = resultOf(response.result);
    const missing = missingGoods(response.missingLineItemIds);
    const next_step = RESULTS[result] + (missing ? ` Tell the user: ${missing}.` : '');
    return { return_id, result, next_step };
  },
});

function resultOf(response: ProcessResult): keyof typeof RESULTS {
  switch (response.case) {
    case 'queued':
      return 'queued';
    case 'alreadyQueued':
      return 'already_queued';
    case 'skippedInstantRefund':
      return 'skipped_instant_refund';
    case 'refused':
      throw rejection(response.value);
    case undefined:
      throw new Error('the response of the service has no result');
    default:
      return response satisfies never;
  }
}

function rejection({ code, message }: { code: RefusedCode; message: string }): ToolError {
  return new ToolError(`${message} ${NEXT_STEPS.get(code) ?? READ_STATE}`);
}

const READ_STATE = 'Read its state with get_return.';
const NEXT_STEPS: ReadonlyMap<RefusedCode, string> = new Map([
  [
    RefusedCode.UNPROCESSABLE_FLAGGED_RETURN,
    'Show the user why it is in review (get_return_timeline). Only if the user decides that it may be processed, call unflag_return and then process_return again.',
  ],
  [
    RefusedCode.NO_COMMERCE_PROVIDER,
    'Nothing was changed. Tell the user that the operator of the service must configure the provider.',
  ],
]);
