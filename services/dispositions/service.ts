import type { ConnectRouter } from '@connectrpc/connect';
import type pg from 'pg';
import {
  AssessRequestSchema,
  DispositionsService,
  GradeItemsRequestSchema,
} from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { keyUseOf } from '../platform/idempotency.ts';
import { parseInput } from '../platform/input.ts';
import type { HandOverDeps } from './hand-over.ts';
import { inspect } from './inspect.ts';
import { conditionOf, dispositionOf, type Inspection, outcomeText } from './inspection.ts';
import { withNotes } from './long-texts.ts';
import { assessRequest, gradeRequest, readRequest, settingsEdit } from './requests.ts';
import { findDefaultOutcome, saveDefaultOutcome } from './settings.ts';
import { findCurrent } from './store.ts';

/** The RPCs of the dispositions service. Each parses the request and calls one use case. */
export function dispositionRoutes(deps: HandOverDeps): (router: ConnectRouter) => void {
  const { pool } = deps;
  return (router) => {
    router.service(DispositionsService, {
      async assess(request) {
        const { shopId, actor, items } = parseInput(assessRequest, request);
        const use = keyUseOf('Assess', AssessRequestSchema, request);
        const batch = { shopId, actor, kind: 'assessment', findings: items, use } as const;
        const { inspections, isRepeat } = await inspect(deps, batch);
        const hasNotes = isRepeat || !request.withoutNotes;
        const shown = hasNotes
          ? await withNotes(deps, shopId, inspections)
          : inspections.map((one) => ({ ...one, note: undefined }));
        return { items: shown.map(toDispositionRecord), hasNotes };
      },

      async gradeItems(request) {
        const { shopId, actor, items } = parseInput(gradeRequest, request);
        const use = keyUseOf('GradeItems', GradeItemsRequestSchema, request);
        const batch = { shopId, actor, kind: 'grading', findings: items, use } as const;
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
