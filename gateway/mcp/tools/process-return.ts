import { z } from 'zod';
import { ProcessReturnResponse_Refused_Code as RefusedCode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { PROCESS_DETAILS_MAX } from '../../../services/contract/limits.ts';
import { processBody } from '../../../services/contract/resources/process.ts';
import { processReturn as process } from '../../actions/returns.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { defineTool, type ToolContext, ToolRefusal } from '../tool.ts';

const RESULTS = {
  queued:
    'Processing is queued. Read the return again in a little while: closed means that it was done.',
  already_queued:
    'Processing was queued before; nothing was added. Read the return again later: closed means that it was done. While it is open, get_return_timeline shows whether it failed.',
  skipped_instant_refund:
    'Nothing was done: the return has an open instant refund, which must be completed first.',
} as const;

export const processReturn = defineTool({
  name: 'process_return',
  title: 'Process return',
  description:
    'Use this when a person has decided that a return is to be fulfilled: it pays the refund, issues the gift card, places the exchange order and archives the return. This moves money and cannot be undone: name the return and its amounts and have the person confirm first. A flagged return (state review) is refused until a person has unflagged it.',
  hints: {
    readOnly: {
      is: false,
      because: 'It queues processing, which fulfils and archives the return.',
    },
    destructive: {
      is: true,
      because: 'Refunds, gift cards and exchange orders cannot be taken back from here.',
    },
    idempotent: {
      is: true,
      because:
        'A return is fulfilled once: the result of a repeat is that it is queued, or that it is closed.',
    },
    openWorld: { is: true, because: 'The commerce platform pays, issues and orders.' },
  },
  input: z.strictObject({
    return_id: returnId,
    details: processBody
      .optional()
      .describe(
        `Up to ${PROCESS_DETAILS_MAX} values by name for the additional details of new orders and for the timeline; numbers are passed on digit by digit. Leave out unless asked for`,
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
    const result = await resultOf(context, { returnId: BigInt(return_id), details });
    return { return_id, result, next_step: RESULTS[result] };
  },
});

async function resultOf(
  context: ToolContext,
  o: { returnId: bigint; details: z.output<typeof processBody> },
): Promise<keyof typeof RESULTS> {
  const answer = await process(context, {
    ...o,
    source: 'api',
    idempotencyKey: context.callId,
  });
  switch (answer.case) {
    case 'queued':
      return 'queued';
    case 'alreadyQueued':
      return 'already_queued';
    case 'skippedInstantRefund':
      return 'skipped_instant_refund';
    case 'refused':
      throw refusal(answer.value);
    case undefined:
      throw new Error('the service answered without a result');
    default:
      return answer satisfies never;
  }
}

function refusal({ code, message }: { code: RefusedCode; message: string }): ToolRefusal {
  return new ToolRefusal(`${message} ${NEXT.get(code) ?? ENDED}`);
}

const ENDED = 'It is at its end, and processing cannot change that. Read it with get_return.';
const NEXT: ReadonlyMap<RefusedCode, string> = new Map([
  [
    RefusedCode.UNPROCESSABLE_FLAGGED_RETURN,
    'Show the person why it is in review (get_return_timeline). Only when the person decides that it may go on, unflag_return and process it again.',
  ],
  [
    RefusedCode.NO_COMMERCE_PROVIDER,
    'Nothing was changed. Tell the person that the operator of the service has to set up the provider.',
  ],
]);
