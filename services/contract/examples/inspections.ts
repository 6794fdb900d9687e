import { create } from '@bufbuild/protobuf';
import type { z } from 'zod';
import {
  ConditionRecordSchema,
  DispositionRecordSchema,
} from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import type { assessBody } from '../resources/disposition.ts';
import type { gradeBody } from '../resources/grading.ts';
import { dispositionView } from '../views/disposition.ts';
import { gradingView } from '../views/grading.ts';
import type { OperationExample } from './example.ts';
import { exampleCondition, exampleDisposition, FINDINGS } from './return.ts';
import { LINE_ITEM_IDS, TIMES, WAREHOUSE_PARTNER } from './story.ts';

const lines = LINE_ITEM_IDS.map((lineItemId, at) => ({
  lineItemId,
  condition: exampleCondition(at),
  disposition: exampleDisposition(at),
}));
const inspection = { return_processor: WAREHOUSE_PARTNER, inspected_at: TIMES.inspected };

const gradings: z.input<typeof gradeBody> = {
  items: LINE_ITEM_IDS.map((id, at) => {
    const { category, description, image } = FINDINGS[at] ?? FINDINGS[0];
    return { line_item_id: Number(id), category, description, ...inspection, images: [image] };
  }),
};

const dispositions = lines.map((line) => dispositionView(create(DispositionRecordSchema, line)));
const assessments: z.input<typeof assessBody> = {
  items: dispositions.map(({ line_item_id, disposition_outcome }) => ({
    line_item_id,
    disposition_outcome,
    ...inspection,
  })),
};

export const INSPECTION_EXAMPLES = {
  gradeItems: {
    request: gradings,
    response: lines.map((line) => gradingView(create(ConditionRecordSchema, line))),
    invalid: { items: [{ line_item_id: 1 }] },
  },
  assessDispositions: {
    request: assessments,
    response: dispositions,
    invalid: { items: [] },
  },
} satisfies Record<string, OperationExample>;
