import { Code } from '@connectrpc/connect';
import { z } from 'zod';
import type { Actor } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { FRAUD_COMMENT_MAX } from '../contract/limits.ts';
import { FRAUD_CATEGORIES, type FraudCategory } from '../contract/vocabulary.ts';
import { DomainError } from '../platform/values/errors.ts';
import { callerShape, id, optionalIdempotencyKey, text } from '../platform/values/input.ts';
import { blank } from '../platform/values/text.ts';

/** A report to create. A blank comment counts as absent. The category `other` requires a comment. */
export const newReport = z
  .object({
    ...callerShape,
    idempotencyKey: optionalIdempotencyKey,
    returnId: id,
    category: z.enum(FRAUD_CATEGORIES, `must be one of ${FRAUD_CATEGORIES.join(', ')}`).optional(),
    comment: text(FRAUD_COMMENT_MAX)
      .transform((comment) => (blank(comment) ? undefined : comment))
      .optional(),
  })
  .refine((report) => !needsComment(report.category) || report.comment !== undefined, {
    path: ['comment'],
    message: 'is required when category is other',
  });
export type NewReport = z.infer<typeof newReport>;

/** A fraud report. A return has at most one. */
export interface Report {
  readonly id: bigint;
  readonly returnId: bigint;
  readonly category: string | undefined;
  readonly comment: string | undefined;
  readonly createdAt: Date;
  readonly reportedBy: Pick<Actor, 'kind' | 'id' | 'name'>;
}

const TITLES = {
  'package-never-received': 'Package never received',
  'package-is-empty': 'Package is empty',
  'package-is-missing-items': 'Package is missing items',
  'instant-return-charge-failed': 'Instant return charge failed',
  'keep-item-abuse': 'Keep-item abuse',
  'splitting-returns-to-avoid-restrictions': 'Splitting returns to avoid restrictions',
  'item-is-worn': 'Item is worn',
  other: 'Other',
} satisfies Record<FraudCategory, string>;

/** The categories of reports, in the order of the interface. */
export const CATEGORIES = FRAUD_CATEGORIES.map((category) => ({
  id: category,
  title: TITLES[category],
  commentRequired: needsComment(category),
}));

function needsComment(category: FraudCategory | undefined): boolean {
  return category === 'other';
}

/** One error for a return that does not exist and for one of another shop, so that they look the same. */
export function returnNotFound(returnId: bigint): DomainError {
  return new DomainError(
    Code.NotFound,
    ErrorReason.RETURN_NOT_FOUND,
    `return ${returnId} does not exist`,
  );
}

export function reportNotFound(returnId: bigint): DomainError {
  return new DomainError(
    Code.NotFound,
    ErrorReason.FRAUD_REPORT_NOT_FOUND,
    `return ${returnId} has no fraud report`,
  );
}

export function reportExists(returnId: bigint): DomainError {
  return new DomainError(
    Code.AlreadyExists,
    ErrorReason.FRAUD_REPORT_EXISTS,
    `return ${returnId} already has a fraud report`,
  );
}
