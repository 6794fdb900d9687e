import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  ReplayFilterSchema,
  ReplaySchema,
} from '../../../proto/gen/rms/portal/v1/replays_pb.ts';
import {
  type DeliveryFilter,
  DeliveryStateSchema,
  type Replay,
  ReplayKindSchema,
  ReplayStateSchema,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { word } from '../../../services/contract/views/values.ts';
import {
  DELIVERY_STATES,
  REPLAY_KINDS,
  REPLAY_STATES,
} from '../../../services/contract/vocabulary.ts';

export function replayView(replay: Replay): MessageInitShape<typeof ReplaySchema> {
  const { id, kind, state, filter, total, done, skipped, startedAt, finishedAt, error } = replay;
  const { unlisted } = replay;
  return {
    id: String(id),
    total,
    done,
    skipped,
    error,
    unlisted,
    kind: word(ReplayKindSchema, kind, REPLAY_KINDS) ?? '',
    state: word(ReplayStateSchema, state, REPLAY_STATES) ?? '',
    ...(filter && { filter: filterView(filter) }),
    ...(startedAt && { startedAt }),
    ...(finishedAt && { finishedAt }),
  };
}

function filterView(filter: DeliveryFilter): MessageInitShape<typeof ReplayFilterSchema> {
  const { subscriptionId, topic, trigger, states, from, to, returnId } = filter;
  return {
    topic,
    trigger,
    states: states.map((state) => word(DeliveryStateSchema, state, DELIVERY_STATES) ?? ''),
    ...(subscriptionId && { webhookId: String(subscriptionId) }),
    ...(returnId && { returnId: String(returnId) }),
    ...(from && { from }),
    ...(to && { to }),
  };
}
