import type { ConnectRouter } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import {
  AssessRequestSchema,
  DispositionsService,
  GradeItemsRequestSchema,
} from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { DispositionOutcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  DISPOSITION_ITEMS_MAX,
  IMAGE_MAX,
  IMAGES_PER_ITEM_MAX,
  NOTE_MAX,
  RETURN_PROCESSOR_MAX,
  SHORT_TEXT_MAX,
} from '../contract/limits.ts';
import { CONDITION_CATEGORIES, type ConditionCategory } from '../contract/vocabulary.ts';
import type { Settings } from '../platform/process/config.ts';
import {
  type RunningService,
  type ServiceOptions,
  startService,
} from '../platform/process/service.ts';
import { createServiceClient } from '../platform/rpc/client.ts';
import { keyUseOf, startKeyPurge } from '../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  optionalIdempotencyKey,
  parseInput,
  text,
  time,
} from '../platform/values/input.ts';
import type { dispositionsShape } from './config.ts';
import { type HandOverDeps, startHandovers } from './hand-over.ts';
import { inspect } from './inspect.ts';
import {
  conditionOf,
  dispositionOf,
  type Inspection,
  NO_FIELDS,
  outcomeText,
} from './inspection.ts';
import { withNotes } from './long-texts.ts';
import { findDefaultOutcome, saveDefaultOutcome } from './settings.ts';
import { findCurrent } from './store.ts';

type DispositionsOptions = ServiceOptions & Settings<typeof dispositionsShape>;

/** Starts the dispositions service. While returns is unavailable, its writes fail with UNAVAILABLE. */
export function startDispositions(o: DispositionsOptions): Promise<RunningService> {
  return startService(
    {
      name: 'dispositions',
      publishes: true,
      build: ({ pool, backgroundPool, identity, telemetry, logger }) => {
        const target = o.RETURNS_TARGET;
        const returns = createServiceClient(ReturnsService, { target, identity, telemetry });
        const deps = { pool, returns: returns.client };
        return {
          routes: dispositionRoutes(deps),
          workers: async () => [
            startHandovers({ ...deps, pool: backgroundPool }, logger),
            startKeyPurge({ pool: backgroundPool, logger }),
          ],
          close: async () => returns.close(),
        };
      },
    },
    o,
  );
}

/** The RPCs of the dispositions service. Each parses the request and calls one use case. */
function dispositionRoutes(deps: HandOverDeps): (router: ConnectRouter) => void {
  const { pool } = deps;
  return (router) => {
    router.service(DispositionsService, {
      async assess(request) {
        const { items, ...of } = parseInput(assessRequest, request);
        const use = keyUseOf('Assess', AssessRequestSchema, request);
        const batch = { ...of, kind: 'assessment', findings: items, use } as const;
        const { inspections, isRepeat } = await inspect(deps, batch);
        const hasNotes = isRepeat || !request.withoutNotes;
        const shown = hasNotes
          ? await withNotes(deps, of.shopId, inspections)
          : inspections.map((one) => ({ ...one, note: undefined }));
        return { items: shown.map(toDispositionRecord), hasNotes };
      },

      async gradeItems(request) {
        const { items, ...of } = parseInput(gradeRequest, request);
        const use = keyUseOf('GradeItems', GradeItemsRequestSchema, request);
        const batch = { ...of, kind: 'grading', findings: items, use } as const;
        const { inspections } = await inspect(deps, batch);
        return {
          items: inspections.map((grading) => ({
            lineItemId: grading.lineItemId,
            condition: conditionOf(grading),
          })),
        };
      },

      async getDispositions(request) {
        const { shopId, lineItemIds } = parseInput(readRequest, request);
        const current = await findCurrent(pool, { shopId, kind: 'assessment', lineItemIds });
        const found = [...new Set(lineItemIds)].flatMap((line) => current.get(line) ?? []);
        return { items: (await withNotes(deps, shopId, found)).map(toDispositionRecord) };
      },

      getSettings: ({ shopId }) => settingsOf(pool, shopId),

      async updateSettings(request) {
        const { shopId, settings } = parseInput(settingsEdit, request);
        const outcome = settings?.defaultOutcome;
        if (outcome !== undefined) await saveDefaultOutcome(pool, shopId, outcome);
        return settingsOf(pool, shopId);
      },
    });
  };
}

function toDispositionRecord(assessment: Inspection) {
  return { lineItemId: assessment.lineItemId, disposition: dispositionOf(assessment) };
}

async function settingsOf(pool: pg.Pool, shopId: bigint) {
  const outcome = await findDefaultOutcome(pool, shopId);
  return { settings: { defaultOutcome: outcomeText.fromText(outcome) } };
}

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
  .object({
    ...findingShape,
    outcome,
    quantity: z.int().positive('must be at least 1').optional(),
  })
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
const keyedShape = {
  ...callerShape,
  idempotencyKey: optionalIdempotencyKey,
  returnId: z.bigint().nonnegative('must be the id of a return'),
};
const assessRequest = z.object({ ...keyedShape, items: linesOf(assessment) });
const gradeRequest = z.object({ ...keyedShape, items: linesOf(grading) });

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

const readRequest = z.object({
  shopId: id,
  lineItemIds: z
    .array(id)
    .min(1, `must have 1 to ${LINES_READ_MAX} entries`)
    .max(LINES_READ_MAX, `must have 1 to ${LINES_READ_MAX} entries`),
});

/** A change of the settings. Absent fields keep their values. */
const settingsEdit = z.object({
  shopId: id,
  settings: z.object({ defaultOutcome: outcome }).optional(),
});
