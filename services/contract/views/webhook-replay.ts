import {
  type DeliveryFilter,
  DeliveryStateSchema,
  type PreviewBackfillResponse,
  type PreviewReplayResponse,
  type Replay,
  ReplayKindSchema,
  ReplayStateSchema,
  UnreplayableReasonSchema,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { ReplayObject, ReplayPreviewObject } from '../resources/webhook-replay.ts';
import {
  DELIVERY_STATES,
  REPLAY_KINDS,
  REPLAY_STATES,
  TOPICS,
  TRIGGERS,
  UNREPLAYABLE_REASONS,
} from '../vocabulary.ts';
import { idNumber, iso, requiredIso, textOrNull, word } from './values.ts';

/** A replay or a backfill as partners see it. Throws when a required field is missing. */
export function replayView(replay: Replay): ReplayObject {
  const kind = word(ReplayKindSchema, replay.kind, REPLAY_KINDS);
  const state = word(ReplayStateSchema, replay.state, REPLAY_STATES);
  if (!kind || !state || !replay.filter) {
    throw new Error(`replay ${replay.id} has no kind, state or filter`);
  }
  const { total, done, skipped } = replay;
  return {
    id: Number(replay.id),
    kind,
    state,
    filter: filterView(replay.filter),
    total,
    done,
    skipped,
    started_at: requiredIso(replay.startedAt, 'a replay'),
    finished_at: iso(replay.finishedAt),
    error: textOrNull(replay.error),
  };
}

function filterView(filter: DeliveryFilter): ReplayObject['filter'] {
  return {
    webhook_id: idNumber(filter.subscriptionId),
    url: textOrNull(filter.url),
    topic: TOPICS.find((name) => name === filter.topic) ?? null,
    trigger: TRIGGERS.find((name) => name === filter.trigger) ?? null,
    states: filter.states.flatMap((one) => word(DeliveryStateSchema, one, DELIVERY_STATES) ?? []),
    return_id: idNumber(filter.returnId),
    from: iso(filter.from),
    to: iso(filter.to),
  };
}

/** What a replay would send. */
export function replayPreviewView(preview: PreviewReplayResponse): ReplayPreviewObject {
  const { matched, more, replayable } = preview;
  return {
    kind: 'replay',
    matched,
    more,
    replayable,
    not_replayable: preview.notReplayable.map(({ reason, count }) => {
      const name = word(UnreplayableReasonSchema, reason, UNREPLAYABLE_REASONS);
      if (!name) throw new Error(`unknown reason ${reason}`);
      return { reason: name, count };
    }),
    oldest_at: iso(preview.oldestAt),
    newest_at: iso(preview.newestAt),
  };
}

/** What a backfill would read. */
export function backfillPreviewView(preview: PreviewBackfillResponse): ReplayPreviewObject {
  const { events, more } = preview;
  return {
    kind: 'backfill',
    matched: events,
    more,
    replayable: events,
    not_replayable: [],
    oldest_at: iso(preview.oldestAt),
    newest_at: iso(preview.newestAt),
  };
}
