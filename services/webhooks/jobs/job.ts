import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { DeliveryFilter } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { DomainError } from '../../platform/values/errors.ts';

/** Maximum number of deliveries of one replay, and of events of one backfill. */
export const MAX_JOB = 100_000;

export type JobKind = 'replay' | 'backfill';
export type JobState = 'running' | 'done' | 'cancelled' | 'failed';

/** A replay or a backfill with its progress. */
export interface Job {
  readonly id: bigint;
  readonly kind: JobKind;
  readonly state: JobState;
  readonly filter: DeliveryFilter;
  readonly total: number;
  readonly done: number;
  readonly skipped: number;
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
  /** Why the job failed; empty when it did not fail. */
  readonly error: string;
}

export function jobNotFound(id: bigint): DomainError {
  return new DomainError(
    Code.NotFound,
    ErrorReason.REPLAY_NOT_FOUND,
    `replay ${id} does not exist`,
  );
}

/** The error for an idempotency key that an earlier call used with other content (ALREADY_EXISTS). */
export function keyConflict(): DomainError {
  return new DomainError(
    Code.AlreadyExists,
    ErrorReason.IDEMPOTENCY_CONFLICT,
    'idempotency_key was used for something else',
    { field: 'idempotency_key' },
  );
}
