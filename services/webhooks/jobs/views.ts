import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  type PreviewBackfillResponse,
  PreviewBackfillResponseSchema,
  type PreviewReplayResponse,
  PreviewReplayResponseSchema,
  type Replay,
  ReplayKindSchema,
  ReplaySchema,
  ReplayStateSchema,
  UnreplayableReasonSchema,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { enumText } from '../../platform/enum-text.ts';
import type { Job } from './job.ts';
import type { Preview } from './preview.ts';
import type { RetainedCount } from './retained-events.ts';

const kindText = enumText(ReplayKindSchema);
const stateText = enumText(ReplayStateSchema);
const reasonText = enumText(UnreplayableReasonSchema);

export function replayMessage(job: Job): Replay {
  const { id, filter, total, done, skipped, error, isUnlisted: unlisted } = job;
  return create(ReplaySchema, {
    id,
    kind: kindText.fromText(job.kind),
    state: stateText.fromText(job.state),
    filter,
    total,
    done,
    skipped,
    startedAt: timestampFromDate(job.startedAt),
    ...(job.finishedAt && { finishedAt: timestampFromDate(job.finishedAt) }),
    error,
    unlisted,
  });
}

export function previewMessage(preview: Preview): PreviewReplayResponse {
  return create(PreviewReplayResponseSchema, {
    matched: preview.matched,
    more: preview.isMore,
    replayable: preview.replayable.reduce((sum, { total }) => sum + total, 0),
    ...(preview.oldestAt && { oldestAt: timestampFromDate(preview.oldestAt) }),
    ...(preview.newestAt && { newestAt: timestampFromDate(preview.newestAt) }),
    notReplayable: preview.notReplayable.map(({ reason, count }) => ({
      reason: reasonText.fromText(reason),
      count,
    })),
  });
}

export function backfillPreviewMessage(counted: RetainedCount): PreviewBackfillResponse {
  return create(PreviewBackfillResponseSchema, {
    events: counted.count,
    more: counted.isMore,
    ...(counted.oldestAt && { oldestAt: timestampFromDate(counted.oldestAt) }),
    ...(counted.newestAt && { newestAt: timestampFromDate(counted.newestAt) }),
  });
}
