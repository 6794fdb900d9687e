import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Actor } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  type ConditionSchema,
  DispositionOutcomeSchema,
  type DispositionSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { enumText } from '../platform/values/enum-text.ts';

/** An assessment decides the disposition of a line item. A grading describes its condition. */
export type Kind = 'assessment' | 'grading';

/** The finding of a warehouse about one line item. An assessment has an outcome, a grading has a category. */
export interface Finding {
  readonly lineItemId: bigint;
  readonly outcome: string | undefined;
  /** Units that an assessment is about; undefined: all of the line item. */
  readonly quantity: number | undefined;
  readonly category: string | undefined;
  readonly subject: string | undefined;
  readonly title: string | undefined;
  readonly categoryParent: string | undefined;
  readonly description: string | undefined;
  readonly returnProcessor: string | undefined;
  readonly note: string | undefined;
  /** Undefined means the time of the recording, which `store.ts` sets. */
  readonly inspectedAt: Date | undefined;
  /**
   * Links to images. Returns shows the images of gradings and of assessments together, in the condition of the line
   * item.
   */
  readonly images: readonly string[];
}

/** The fields that only one kind of finding has, each undefined. */
export const NO_FIELDS = {
  outcome: undefined,
  quantity: undefined,
  category: undefined,
  subject: undefined,
  title: undefined,
  categoryParent: undefined,
  description: undefined,
} satisfies Partial<Finding>;

/** A recorded finding. */
export interface Inspection extends Finding {
  /** Of two inspections of a line item, the later one has the larger id. */
  readonly id: bigint;
  readonly inspectedAt: Date;
  readonly actor: Pick<Actor, 'kind' | 'id' | 'name'>;
}

export const outcomeText = enumText(DispositionOutcomeSchema);

/** The disposition that an assessment sets. Throws for a grading, which has no outcome. */
export function dispositionOf(assessment: Inspection): MessageInitShape<typeof DispositionSchema> {
  const { returnProcessor, note, inspectedAt, outcome, quantity } = assessment;
  return {
    outcome: outcomeText.fromText(outcome ?? ''),
    ...(quantity !== undefined && { quantity }),
    inspectedAt: timestampFromDate(inspectedAt),
    ...(returnProcessor !== undefined && { returnProcessor }),
    ...(note !== undefined && { note }),
  };
}

const GRADE = /^grade_([a-d])$/;

/** The condition that a grading sets: a grade, or the name of a category that has no grade. */
export function conditionOf(grading: Inspection): MessageInitShape<typeof ConditionSchema> {
  const { category = '', categoryParent, returnProcessor, note } = grading;
  const grade = GRADE.exec(category)?.[1];
  return {
    description: grading.description ?? '',
    subject: grading.subject ?? '',
    title: grading.title ?? '',
    inspectedAt: timestampFromDate(grading.inspectedAt),
    images: [...grading.images],
    ...(grade === undefined ? { categoryName: category } : { grade }),
    ...(categoryParent !== undefined && { categoryParent }),
    ...(returnProcessor !== undefined && { returnProcessor }),
    ...(note !== undefined && { note }),
  };
}
