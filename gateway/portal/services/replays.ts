import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type { ReplayFilter } from '../../../proto/gen/rms/portal/v1/replays_pb.ts';
import type { WebhooksService } from '../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import {
  type DeliveryFilterSchema,
  DeliveryStateSchema,
  UnreplayableReasonSchema,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { word } from '../../../services/contract/views/values.ts';
import {
  DELIVERY_STATES,
  TOPICS,
  TRIGGERS,
  UNREPLAYABLE_REASONS,
} from '../../../services/contract/vocabulary.ts';
import { enumText } from '../../../services/platform/enum-text.ts';
import { callerOf, sent } from '../../actions/context.ts';
import { cancelReplay, getReplay, listReplays } from '../../actions/webhook-replays.ts';
import { callOf } from '../call.ts';
import {
  filterId,
  idOf,
  invalid,
  keyOf,
  optionalWord,
  pageSizeOf,
  timeOf,
  wordOf,
} from '../fields.ts';
import { replayView } from '../views/replay.ts';

const STATE = enumText(DeliveryStateSchema);

/** The methods about replays by filter and backfills. */
export function replayMethods() {
  return { ...startMethods(), ...jobMethods() };
}

type Methods = Partial<ServiceImpl<typeof WebhooksService>>;

function startMethods() {
  return {
    async previewReplay({ filter }, context) {
      const call = callOf(context);
      const asked = requireFilter(filter);
      const selected = filterOf(asked);
      const { webhooks } = call.context.services;
      const preview = await webhooks.previewReplay({ ...callerOf(call.context), filter: selected });
      const { matched, more, replayable, oldestAt, newestAt } = preview;
      return {
        matched,
        more,
        replayable,
        ...(oldestAt && { oldestAt }),
        ...(newestAt && { newestAt }),
        notReplayable: preview.notReplayable.map(({ reason, count }) => ({
          reason: word(UnreplayableReasonSchema, reason, UNREPLAYABLE_REASONS) ?? '',
          count,
        })),
        filter: { ...asked, to: selected.to },
      };
    },

    async startReplay({ filter, idempotencyKey }, context) {
      const call = callOf(context);
      const { replay } = await call.context.services.webhooks.startReplay({
        ...callerOf(call.context),
        filter: filterOf(requireFilter(filter)),
        idempotencyKey: keyOf(call, idempotencyKey),
      });
      return { replay: replayView(sent(replay, 'replay')) };
    },

    async previewBackfill(request, context) {
      const call = callOf(context);
      const preview = await call.context.services.webhooks.previewBackfill({
        ...callerOf(call.context),
        ...backfillOf(request),
      });
      const { events, more, oldestAt, newestAt } = preview;
      return { events, more, ...(oldestAt && { oldestAt }), ...(newestAt && { newestAt }) };
    },

    async startBackfill(request, context) {
      const call = callOf(context);
      const { replay } = await call.context.services.webhooks.startBackfill({
        ...callerOf(call.context),
        ...backfillOf(request),
        idempotencyKey: keyOf(call, request.idempotencyKey),
      });
      return { replay: replayView(sent(replay, 'replay')) };
    },
  } satisfies Methods;
}

function jobMethods() {
  return {
    async getReplay({ replayId }, context) {
      const replay = await getReplay(callOf(context).context, idOf(replayId, 'replay'));
      return { replay: replayView(replay) };
    },

    async listReplays({ webhookId, pageSize, cursor }, context) {
      const page = await listReplays(callOf(context).context, {
        webhookId: filterId('webhook_id', webhookId),
        limit: pageSizeOf(pageSize),
        cursor,
      });
      return { replays: page.replays.map(replayView), nextCursor: page.nextCursor };
    },

    async stopReplay({ replayId }, context) {
      const replay = await cancelReplay(callOf(context).context, idOf(replayId, 'replay'));
      return { replay: replayView(replay) };
    },
  } satisfies Methods;
}

function requireFilter(filter: ReplayFilter | undefined): ReplayFilter {
  if (!filter) throw invalid('filter', 'is required');
  return filter;
}

/** Without `to`, the filter ends now, so that a start sends what the preview counted. */
function filterOf(filter: ReplayFilter) {
  const [from, to] = [timeOf('filter.from', filter.from), timeOf('filter.to', filter.to)];
  return {
    subscriptionId: filterId('filter.webhook_id', filter.webhookId),
    topic: optionalWord('filter.topic', filter.topic, TOPICS) ?? '',
    trigger: optionalWord('filter.trigger', filter.trigger, TRIGGERS) ?? '',
    states: filter.states.map((state) =>
      STATE.fromText(wordOf('filter.states', state, DELIVERY_STATES)),
    ),
    returnId: filterId('filter.return_id', filter.returnId),
    ...(from && { from: timestampFromDate(from) }),
    to: timestampFromDate(to ?? new Date()),
  } satisfies MessageInitShape<typeof DeliveryFilterSchema>;
}

function backfillOf(request: {
  readonly webhookId: string;
  readonly from?: Parameters<typeof timeOf>[1];
  readonly to?: Parameters<typeof timeOf>[1];
}) {
  const [from, to] = [timeOf('from', request.from), timeOf('to', request.to)];
  return {
    subscriptionId: idOf(request.webhookId, 'webhook'),
    ...(from && { from: timestampFromDate(from) }),
    ...(to && { to: timestampFromDate(to) }),
  };
}
