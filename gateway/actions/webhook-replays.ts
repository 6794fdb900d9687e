import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  type DeliveryFilterSchema,
  DeliveryStateSchema,
  type ListReplaysResponse,
  type Replay,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type {
  ReplayBody,
  ReplayPreviewObject,
  ReplaysQuery,
} from '../../services/contract/resources/webhook-replay.ts';
import {
  backfillPreviewView,
  replayPreviewView,
} from '../../services/contract/views/webhook-replay.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

const STATE = enumText(DeliveryStateSchema);

/** Counts what a replay or a backfill would send. */
export async function previewReplay(
  context: ActionContext,
  body: ReplayBody,
): Promise<ReplayPreviewObject> {
  const { webhooks } = context.services;
  if (body.kind === 'backfill') {
    const request = { ...callerOf(context), ...backfillOf(body) };
    return backfillPreviewView(await webhooks.previewBackfill(request));
  }
  const request = { ...callerOf(context), filter: filterOf(body) };
  return replayPreviewView(await webhooks.previewReplay(request));
}

/**
 * Starts a replay or a backfill.
 *
 * @param idempotencyKey 1 to 200 characters; a repeat with the same key returns the first job.
 */
export async function startReplay(
  context: ActionContext,
  body: ReplayBody,
  idempotencyKey: string,
): Promise<Replay> {
  const { webhooks } = context.services;
  const call = { ...callerOf(context), idempotencyKey };
  const { replay } =
    body.kind === 'backfill'
      ? await webhooks.startBackfill({ ...call, ...backfillOf(body) })
      : await webhooks.startReplay({ ...call, filter: filterOf(body) });
  return sent(replay, 'replay');
}

/** Returns a page of replays and backfills, newest first. */
export function listReplays(
  context: ActionContext,
  { webhookId, limit, cursor }: ReplaysQuery,
): Promise<ListReplaysResponse> {
  return context.services.webhooks.listReplays({
    ...callerOf(context),
    subscriptionId: webhookId,
    pageSize: limit,
    cursor,
  });
}

/** Reads the progress of a replay or a backfill. */
export async function getReplay(context: ActionContext, replayId: bigint): Promise<Replay> {
  const { replay } = await context.services.webhooks.getReplay({ ...callerOf(context), replayId });
  return sent(replay, 'replay');
}

/** Stops a replay or a backfill, and returns it. */
export async function cancelReplay(context: ActionContext, replayId: bigint): Promise<Replay> {
  const request = { ...callerOf(context), replayId };
  const { replay } = await context.services.webhooks.cancelReplay(request);
  return sent(replay, 'replay');
}

function filterOf(body: ReplayBody): MessageInitShape<typeof DeliveryFilterSchema> {
  return {
    ...backfillOf(body),
    url: body.url ?? '',
    topic: body.topic ?? '',
    trigger: body.trigger ?? '',
    states: (body.states ?? []).map(STATE.fromText),
    returnId: BigInt(body.return_id ?? 0),
  };
}

function backfillOf({ webhook_id, from, to }: ReplayBody) {
  return {
    subscriptionId: BigInt(webhook_id ?? 0),
    ...(from && { from: timestampFromDate(from) }),
    ...(to && { to: timestampFromDate(to) }),
  };
}
