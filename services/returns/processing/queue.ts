import { toBinary } from '@bufbuild/protobuf';
import { ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { named, param, sql } from '../../platform/sql.ts';
import { currentTraceparent } from '../../platform/telemetry.ts';
import { insertTimeline, type NewTimelineEntry } from '../store/timeline-store.ts';
import type { Job } from './jobs.ts';

/** Prefix of the channel `processing_<schema>`, which is notified by the commit that queues a job. */
export const JOBS_CHANNEL_PREFIX = 'processing_';

/**
 * Queues a job, marks its return as queued, and adds a timeline entry. The caller must hold the row lock of the return,
 * and must have checked that no job is queued.
 */
export async function queueJob(
  tx: Queryable,
  job: Pick<Job, 'shopId' | 'returnId' | 'details' | 'source' | 'actor' | 'isCancellation'>,
  entry: NewTimelineEntry,
): Promise<void> {
  const shop = param(job.shopId);
  const returnId = param(job.returnId);
  await tx.query(
    named(
      'processing-queue',
      sql`
with queued as (
  insert into processing_jobs (shop_id, return_id, state, details, source, actor, traceparent)
  values (${shop}, ${returnId}, ${job.isCancellation ? 'cancelling' : 'queued'},
          ${JSON.stringify(job.details)}, ${job.source},
          ${toBinary(ActorSchema, job.actor)}, ${currentTraceparent()})
), marked as (
  update returns set processing = true where shop_id = ${shop} and id = ${returnId}
)
${insertTimeline(job, [entry])}, pg_notify(${JOBS_CHANNEL_PREFIX} || current_schema(), '')`,
    ),
  );
}
