import { z } from 'zod';
import { DispositionOutcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  DISPOSITION_ITEMS_MAX,
  IMAGE_MAX,
  IMAGES_PER_ITEM_MAX,
  NOTE_MAX,
  RETURN_PROCESSOR_MAX,
  SHORT_TEXT_MAX,
} from '../contract/limits.ts';
import { CONDITION_CATEGORIES, type ConditionCategory } from '../contract/vocabulary.ts';
import { callerShape, id, optionalIdempotencyKey, text, time } from '../platform/input.ts';
import { NO_FIELDS, outcomeText } from './inspection.ts';

const outcome = z
  .enum(DispositionOutcome, 'must be a known disposition outcome')
  .transform((value) =>
    value === DispositionOutcome.UNSPECIFIED ? undefined : outcomeText.toText(value),
  );

/** The fields that both kinds of finding have. */
const findingShape = {
  lineItemId: id,
  returnProcessor: text(RETURN_PROCESSOR_MAX).optional(),
  note: text(NOTE_MAX).optional(),
  inspectedAt: time.optional(),
  images: z
    .array(text(IMAGE_MAX))
    .max(IMAGES_PER_ITEM_MAX, `must have at most ${IMAGES_PER_ITEM_MAX} entries`),
};

const assessment = z
  .object({ ...findingShape, outcome })
  .transform((item) => ({ ...NO_FIELDS, ...absent, ...item }));

const TITLES = {
  grade_a: 'Grade A',
  grade_b: 'Grade B',
  grade_c: 'Grade C',
  grade_d: 'Grade D',
  incorrect_item: 'Incorrect item',
  missing: 'Missing',
  junk: 'Junk',
} satisfies Record<ConditionCategory, string>;

const grading = z
  .object({
    ...findingShape,
    category: z.enum(CONDITION_CATEGORIES, `must be one of ${CONDITION_CATEGORIES.join(', ')}`),
    subject: text(SHORT_TEXT_MAX),
    title: text(SHORT_TEXT_MAX),
    categoryParent: text(SHORT_TEXT_MAX).optional(),
    description: text(NOTE_MAX),
  })
  .transform((item) => ({
    ...NO_FIELDS,
    ...absent,
    ...item,
    subject: textOrNone(item.subject) ?? 'item',
    title: textOrNone(item.title) ?? TITLES[item.category],
  }));

/** Returns undefined for a text that is only white space, as the returns service does. */
function textOrNone(words: string): string | undefined {
  return words.trim() === '' ? undefined : words;
}

/** The optional fields of a finding as undefined. Every finding has all keys, so that two findings can be compared. */
const absent = { returnProcessor: undefined, note: undefined, inspectedAt: undefined };

/** 1 to 30 different line items. */
const keyedShape = { ...callerShape, idempotencyKey: optionalIdempotencyKey };
export const assessRequest = z.object({ ...keyedShape, items: linesOf(assessment) });
export const gradeRequest = z.object({ ...keyedShape, items: linesOf(grading) });

function linesOf<S extends z.ZodType<{ lineItemId: bigint }>>(item: S) {
  const size = `must have 1 to ${DISPOSITION_ITEMS_MAX} entries`;
  return z
    .array(item)
    .min(1, size)
    .max(DISPOSITION_ITEMS_MAX, size)
    .superRefine((items, context) => {
      const seen = new Set<bigint>();
      for (const [index, { lineItemId }] of items.entries()) {
        if (seen.has(lineItemId)) {
          context.addIssue({
            code: 'custom',
            path: [index, 'lineItemId'],
            message: 'is in the request twice',
          });
        }
        seen.add(lineItemId);
      }
    });
}

const LINES_READ_MAX = 1_000;

export const readRequest = z.object({
  shopId: id,
  lineItemIds: z
    .array(id)
    .min(1, `must have 1 to ${LINES_READ_MAX} entries`)
    .max(LINES_READ_MAX, `must have 1 to ${LINES_READ_MAX} entries`),
});

/** A change of the settings. Absent fields keep their values. */
export const settingsEdit = z.object({
  shopId: id,
  settings: z.object({ defaultOutcome: outcome }).optional(),
});
