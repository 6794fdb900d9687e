import { z } from 'zod';
import type { DispositionRecord } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { type Return, ReturnStateSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ProcessReturnResponse_Refused_Code as RefusedCode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  COMMENT_MAX,
  DISPOSITION_ITEMS_MAX,
  FLAG_REASONS_MAX,
  IMAGE_MAX,
  IMAGES_PER_ITEM_MAX,
  NOTE_MAX,
  PROCESS_DETAILS_MAX,
  RETURN_PROCESSOR_MAX,
  SHORT_TEXT_MAX,
} from '../../../services/contract/limits.ts';
import {
  choice,
  id,
  requiredText,
  text,
  typed,
} from '../../../services/contract/resources/fields.ts';
import {
  type DispositionEntry,
  disposition,
} from '../../../services/contract/resources/inspection.ts';
import { processBody } from '../../../services/contract/resources/process.ts';
import { dispositionView } from '../../../services/contract/views/objects.ts';
import { iso, textOrNull, word } from '../../../services/contract/views/values.ts';
import { DISPOSITION_OUTCOMES, RETURN_STATES } from '../../../services/contract/vocabulary.ts';
import { assessDispositions, missingGoods, missingIn } from '../../actions/dispositions.ts';
import { type ProcessResult, processReturn as process } from '../../actions/returns.ts';
import {
  cancelReturn as cancelled,
  flagReturn as flag,
  unflagReturn as unflag,
} from '../../actions/review.ts';
import { addNote } from '../../actions/timeline.ts';
import { idempotencyKey, returnId, time, UNTRUSTED } from '../schema/fields.ts';
import { asIn, described } from '../schema/result-schema.ts';
import { defineTool, ToolError } from '../tool.ts';

/** The result of a tool that changes a return. */
const changedReturn = z.strictObject({
  return_id: z.int(),
  order_name: z.string().nullable(),
  state: z.enum(RETURN_STATES).nullable(),
  updated_at: z.string().nullable().meta({ format: 'date-time' }),
});

function changedReturnView(ret: Return): z.output<typeof changedReturn> {
  return {
    return_id: Number(ret.id),
    order_name: textOrNull(ret.order?.name),
    state: word(ReturnStateSchema, ret.state, RETURN_STATES),
    updated_at: iso(ret.updatedAt),
  };
}

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
  right: 'processReturns',
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
  sample: ({ openReturn }) => ({
    return_id: openReturn,
    details: { note: 'Careful', rank: 1.5, ok: true },
  }),
  costly: ({ closedReturn }) => ({ return_id: closedReturn }),
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

export const flagReturn = defineTool({
  name: 'flag_return',
  right: 'reviewReturns',
  title: 'Flag return for review',
  description:
    'Use this when a person must look at an open return before it is processed. The return goes into review. unflag_return ends the review.',
  hints: {
    readOnly: { is: false, because: 'The return goes into review.' },
    destructive: { is: false, because: 'The tool unflag_return undoes it, and nothing is lost.' },
    idempotent: { is: true, because: 'A return in review stays as it is. A repeat is rejected.' },
    openWorld: { is: false, because: 'It changes a record of this service.' },
  },
  input: z.strictObject({
    return_id: returnId,
    reasons: z
      .array(requiredText({ max: SHORT_TEXT_MAX }), { error: typed('a list of texts') })
      .min(1, { error: 'must have at least 1 entry' })
      .max(FLAG_REASONS_MAX, { error: `must have at most ${FLAG_REASONS_MAX} entries` })
      .describe('Why a person must look at the return, in a few words each'),
    comment: text({ max: COMMENT_MAX }).optional().describe('A comment, for the timeline'),
    idempotency_key: idempotencyKey,
  }),
  output: changedReturn,
  subject: ({ return_id }) => String(return_id),
  sample: ({ openReturn }) => ({ return_id: openReturn, reasons: ['Odd'] }),
  costly: ({ closedReturn, longText }) => ({
    return_id: closedReturn,
    reasons: Array.from({ length: FLAG_REASONS_MAX }, () => longText(SHORT_TEXT_MAX)),
    comment: longText(COMMENT_MAX),
  }),
  async run(context, { return_id, reasons, comment }) {
    const changed = await flag(context, {
      returnId: BigInt(return_id),
      reasons,
      comment,
      idempotencyKey: context.callId,
    });
    return changedReturnView(changed);
  },
});

export const unflagReturn = defineTool({
  name: 'unflag_return',
  right: 'reviewReturns',
  title: 'Take return out of review',
  description:
    'Use this when a person has looked at a flagged return and decided that it may be processed. The return is open again. Do not use it only because process_return rejected the return.',
  hints: {
    readOnly: { is: false, because: 'It ends the review of the return.' },
    destructive: {
      is: false,
      because: 'The tool flag_return undoes it, and the timeline keeps the reasons of the flag.',
    },
    idempotent: { is: true, because: 'An open return stays as it is. A repeat is rejected.' },
    openWorld: { is: false, because: 'It changes a record of this service.' },
  },
  input: z.strictObject({
    return_id: returnId,
    reasons: z
      .array(requiredText({ max: SHORT_TEXT_MAX }))
      .max(FLAG_REASONS_MAX, { error: `must have at most ${FLAG_REASONS_MAX} entries` })
      .optional()
      .describe('Why the return may be processed, in a few words each'),
    comment: text({ max: COMMENT_MAX }).optional().describe('A comment, for the timeline'),
    idempotency_key: idempotencyKey,
  }),
  output: asIn('flag_return', changedReturn),
  subject: ({ return_id }) => String(return_id),
  sample: ({ flaggedReturn }) => ({ return_id: flaggedReturn }),
  costly: ({ closedReturn, longText }) => ({
    return_id: closedReturn,
    comment: longText(COMMENT_MAX),
  }),
  async run(context, { return_id, reasons = [], comment }) {
    const changed = await unflag(context, {
      returnId: BigInt(return_id),
      reasons,
      comment,
      idempotencyKey: context.callId,
    });
    return changedReturnView(changed);
  },
});

export const cancelReturn = defineTool({
  name: 'cancel_return',
  right: 'reviewReturns',
  title: 'Cancel return',
  description:
    'Use this when the user has asked to cancel a return that is open or in review. This cannot be undone: name the return and let the user confirm first. An open label request is cancelled too. If its exchange order was already placed, the order is cancelled first: the return then stays open and is processing; read it again later.',
  hints: {
    readOnly: { is: false, because: 'It cancels the return.' },
    destructive: { is: true, because: 'A cancelled return cannot be opened again.' },
    idempotent: { is: true, because: 'A cancelled return stays as it is.' },
    openWorld: {
      is: true,
      because:
        'The label provider is notified that an open label request is cancelled, and the commerce provider cancels the exchange order.',
    },
  },
  input: z.strictObject({
    return_id: returnId,
    reason: text({ max: COMMENT_MAX }).optional().describe('The reason, for the timeline'),
    idempotency_key: idempotencyKey,
  }),
  output: asIn('flag_return', changedReturn),
  subject: ({ return_id }) => String(return_id),
  sample: ({ openReturn }) => ({ return_id: openReturn, reason: 'Asked for' }),
  costly: ({ closedReturn, longText }) => ({
    return_id: closedReturn,
    reason: longText(COMMENT_MAX),
  }),
  async run(context, { return_id, reason }) {
    const cancel = { returnId: BigInt(return_id), reason, idempotencyKey: context.callId };
    return changedReturnView(await cancelled(context, cancel));
  },
});

export const addReturnNote = defineTool({
  name: 'add_return_note',
  right: 'reviewReturns',
  title: 'Add note to return',
  description:
    "Use this when something about a return should be written down for colleagues. The note is in the return's timeline, with the user's name. The shopper does not see it. It cannot be changed or removed.",
  hints: {
    readOnly: { is: false, because: 'It adds an entry to the timeline.' },
    destructive: { is: false, because: 'It changes and removes nothing.' },
    idempotent: { is: false, because: 'Each call without an idempotency key adds a note.' },
    openWorld: { is: false, because: "It changes only this service's own records." },
  },
  input: z.strictObject({
    return_id: returnId,
    text: requiredText({ max: NOTE_MAX }).describe('The note, in plain text'),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({
    return_id: z.int(),
    entry_id: z.int(),
    author: z.string().nullable(),
    occurred_at: z.string().nullable().meta({ format: 'date-time' }),
  }),
  subject: ({ return_id }) => String(return_id),
  sample: ({ openReturn }) => ({ return_id: openReturn, text: 'Called the shopper' }),
  costly: ({ openReturn, longText }) => ({ return_id: openReturn, text: longText(NOTE_MAX) }),
  async run(context, { return_id, text }) {
    const note = { returnId: BigInt(return_id), text, idempotencyKey: context.callId };
    const entry = await addNote(context, note);
    return {
      return_id,
      entry_id: Number(entry.id),
      author: textOrNull(entry.author),
      occurred_at: iso(entry.occurredAt),
    };
  },
});

/**
 * Maximum length of a note in the result. A longer note is cut, because the assistant already has it: it sent the note.
 * Characters.
 */
const NOTE_SHOWN = 1_000;

const dispositionInput = z.strictObject(
  {
    line_item_id: id().describe('get_return returns it'),
    disposition_outcome: choice(DISPOSITION_OUTCOMES)
      .optional()
      .describe("When absent, the line's outcome so far or the shop's default"),
    return_processor: text({ max: RETURN_PROCESSOR_MAX })
      .optional()
      .describe('Contact address of the warehouse partner'),
    note: text({ max: NOTE_MAX }).optional(),
    inspected_at: time('Now when absent').optional(),
    images: z
      .array(text({ max: IMAGE_MAX }))
      .max(IMAGES_PER_ITEM_MAX, { error: `must have at most ${IMAGES_PER_ITEM_MAX} entries` })
      .optional()
      .describe('Links to images; the service never fetches them'),
  },
  { error: typed('an object') },
);

export const recordDispositions = defineTool({
  name: 'record_dispositions',
  right: 'inspectGoods',
  title: 'Record dispositions',
  description:
    'Use this when the warehouse has inspected returned items and decided where each goes. One call records 1 to 30 lines, all or none. A later disposition replaces the previous one, which stays in the timeline. It does not process the return.',
  hints: {
    readOnly: { is: false, because: 'It records the dispositions of lines.' },
    destructive: { is: true, because: "It replaces a line's previous disposition." },
    idempotent: {
      is: false,
      because: 'Without inspected_at, a repeat records a new inspection time.',
    },
    openWorld: { is: false, because: 'It changes records of this service.' },
  },
  input: z.strictObject({
    items: z
      .array(dispositionInput, { error: typed('a list') })
      .min(1, { error: 'must have at least 1 entry' })
      .max(DISPOSITION_ITEMS_MAX, { error: `must have at most ${DISPOSITION_ITEMS_MAX} entries` }),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({
    items: z
      .array(
        described(
          `As recorded; notes are cut after ${NOTE_SHOWN} characters. ${UNTRUSTED}`,
          disposition,
        ),
      )
      .describe('In the order of the request'),
    next_step: z.string().optional(),
  }),
  subject: ({ items }) => items.map(({ line_item_id }) => line_item_id).join(','),
  sample: ({ lineItems: [line_item_id = 0] }) => ({
    items: [{ line_item_id, disposition_outcome: 'donate', inspected_at: '2026-11-20T10:00:00Z' }],
  }),
  costly: ({ lineItems, longText }) => ({
    items: lineItems
      .slice(0, 30)
      .map((line_item_id) => ({ line_item_id, note: longText(NOTE_MAX) })),
  }),
  async run(context, { items }) {
    const lines = new Set(items.map(({ line_item_id }) => line_item_id));
    if (lines.size < items.length) throw new ToolError('items must not name a line item twice.');
    const recorded = await assessDispositions(context, { items }, context.callId);
    const missing = missingGoods(missingIn(recorded));
    return {
      items: recorded.map(recordedView),
      ...(missing && { next_step: `Tell the user: ${missing}.` }),
    };
  },
});

/** A recorded disposition as the tool returns it, with a long note cut. */
function recordedView(record: DispositionRecord): DispositionEntry {
  const entry = dispositionView(record);
  return { ...entry, note: entry.note === null ? null : beginningOf(entry.note) };
}

function beginningOf(note: string): string {
  if (note.length <= NOTE_SHOWN) return note;
  // The cut may split a surrogate pair. `toWellFormed` replaces its lone half.
  return `${note.slice(0, NOTE_SHOWN).toWellFormed()}…`;
}
