import { z } from 'zod';
import type { Replay } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { choice, typed } from '../../../services/contract/resources/fields.ts';
import {
  type ReplayBody,
  replayFaults,
} from '../../../services/contract/resources/webhook-replay.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { replayView } from '../../../services/contract/views/webhook-replay.ts';
import {
  DELIVERY_STATES,
  REPLAY_KINDS,
  REPLAY_STATES,
  UNREPLAYABLE_REASONS,
} from '../../../services/contract/vocabulary.ts';
import {
  cancelReplay,
  getReplay,
  listReplays,
  previewReplay,
  startReplay,
} from '../../actions/webhook-replays.ts';
import { restriction } from '../schema/arguments.ts';
import {
  cursor,
  idempotencyKey,
  limit,
  namedId,
  nextCursor,
  otherTrigger,
  time,
} from '../schema/fields.ts';
import { asIn, described } from '../schema/result-schema.ts';
import { defineTool, readOnlyHints, ToolError } from '../tool.ts';

/** The arguments that select what a replay or a backfill sends. The preview and the start have the same arguments. */
const replayArguments = {
  kind: choice(REPLAY_KINDS)
    .default('replay')
    .describe('backfill: stored events that webhook_id did not get; takes only from and to'),
  webhook_id: restriction(namedId),
  states: restriction(
    z.array(choice(DELIVERY_STATES), { error: typed('a list') }).max(DELIVERY_STATES.length, {
      error: `must have at most ${DELIVERY_STATES.length} entries`,
    }),
  ),
  trigger: restriction(otherTrigger),
  return_id: restriction(namedId),
  from: restriction(time('Required for a replay')),
  to: restriction(time('Only events before this time')),
};

/** Checks arguments that depend on one another. @throws ToolError when they do not fit together. */
function replayBodyOf(input: ReplayBody): ReplayBody {
  const faults = replayFaults(input).map(({ field, message }) => `${field} ${message}.`);
  if (faults.length > 0) throw new ToolError(`Invalid arguments: ${faults.join(' ')}`);
  return input;
}

const count = () => z.int();
const when = () => z.string().nullable();

/** A replay or a backfill with its progress. Almost no field has a description, because REST describes them. */
const replayOutput = z.strictObject({
  id: z.int(),
  kind: z.enum(REPLAY_KINDS),
  state: z.enum(REPLAY_STATES),
  webhook_id: z.int().nullable().describe('null: several'),
  total: count(),
  done: count(),
  skipped: count(),
  started_at: z.string(),
  finished_at: when(),
  error: z.string().nullable(),
});

function replayOutputView(replay: Replay): z.output<typeof replayOutput> {
  const { filter, ...shown } = replayView(replay);
  return { ...shown, webhook_id: filter.webhook_id };
}

/** What a replay or a backfill would send. */
const replayPreviewOutput = z.strictObject({
  kind: z.enum(REPLAY_KINDS),
  matched: count(),
  more: z.boolean().describe('Too many: narrow the time'),
  replayable: count(),
  not_replayable: z.array(
    described(
      'reason, count',
      z.strictObject({ reason: z.enum(UNREPLAYABLE_REASONS), count: count() }),
    ),
  ),
  oldest_at: when(),
  newest_at: when(),
});

export const previewWebhookReplay = defineTool({
  name: 'preview_webhook_replay',
  right: 'seeWebhooks',
  title: 'Preview webhook replay',
  description:
    'Use this when you need to know how many deliveries start_webhook_replay with the same arguments would send. It starts nothing.',
  hints: readOnlyHints('the log of deliveries'),
  input: z.strictObject(replayArguments),
  output: replayPreviewOutput,
  sample: ({ webhook }) => ({ webhook_id: webhook, from: '2026-11-20T10:00:00Z' }),
  costly: ({ openReturn }) => ({ return_id: openReturn, from: '2026-01-01T00:00:00Z' }),
  run: (context, input) => previewReplay(context, replayBodyOf(input)),
});

export const startWebhookReplay = defineTool({
  name: 'start_webhook_replay',
  right: 'sendDeliveries',
  title: 'Start webhook replay',
  description:
    'Use this when many deliveries must be sent again. First call preview_webhook_replay, and let the user confirm the number. A job sends them in the background, with the same webhook-id and bytes; list_webhook_replays shows its progress.',
  hints: {
    readOnly: { is: false, because: 'It sends deliveries again.' },
    destructive: { is: false, because: 'It changes and deletes nothing in this service.' },
    idempotent: { is: false, because: 'Each call starts another job.' },
    openWorld: { is: true, because: 'It sends data to webhook endpoints.' },
  },
  input: z.strictObject({ ...replayArguments, idempotency_key: idempotencyKey }),
  output: z.strictObject({ replay: asIn('list_webhook_replays', replayOutput) }),
  subject: ({ webhook_id }) => String(webhook_id ?? 'all'),
  sample: () => ({ states: ['exhausted'], from: '2026-11-20T10:00:00Z' }),
  costly: ({ openReturn }) => ({ return_id: openReturn, from: '2026-01-01T00:00:00Z' }),
  async run(context, { idempotency_key: _, ...input }) {
    const replay = await startReplay(context, replayBodyOf(input), context.callId);
    return { replay: replayOutputView(replay) };
  },
});

export const listWebhookReplays = defineTool({
  name: 'list_webhook_replays',
  right: 'seeWebhooks',
  title: 'List webhook replays',
  description:
    'Use this when you need the progress of a replay or a backfill, or those of the last 30 days, newest first.',
  hints: readOnlyHints('the replays of the shop'),
  input: z.strictObject({
    replay_id: namedId.optional(),
    webhook_id: namedId.optional(),
    limit,
    cursor,
  }),
  output: z.strictObject({
    replays: z.array(
      described(
        'id, kind, state, webhook_id (null: several), total, done, skipped, started_at, finished_at, error',
        replayOutput,
      ),
    ),
    next_cursor: nextCursor,
  }),
  sample: ({ replay }) => ({ replay_id: replay }),
  costly: () => ({ limit: 50 }),
  async run(context, input) {
    if (input.replay_id !== undefined) {
      const replay = await getReplay(context, BigInt(input.replay_id));
      return { replays: [replayOutputView(replay)], next_cursor: null };
    }
    const { replays, nextCursor: next } = await listReplays(context, {
      webhookId: BigInt(input.webhook_id ?? 0),
      limit: input.limit,
      cursor: input.cursor ?? '',
    });
    return { replays: replays.map(replayOutputView), next_cursor: textOrNull(next) };
  },
});

export const cancelWebhookReplay = defineTool({
  name: 'cancel_webhook_replay',
  right: 'sendDeliveries',
  title: 'Cancel webhook replay',
  description:
    'Use this when a replay or a backfill must stop. Deliveries that are queued already are still sent. An ended job does not change.',
  hints: {
    readOnly: { is: false, because: 'It stops a job.' },
    destructive: { is: true, because: 'A stopped job cannot continue.' },
    idempotent: { is: true, because: 'A job that has ended does not change.' },
    openWorld: { is: false, because: 'It calls no other system.' },
  },
  input: z.strictObject({ replay_id: namedId, idempotency_key: idempotencyKey }),
  output: z.strictObject({ replay: asIn('list_webhook_replays', replayOutput) }),
  subject: ({ replay_id }) => String(replay_id),
  sample: ({ replay }) => ({ replay_id: replay }),
  async run(context, { replay_id }) {
    return { replay: replayOutputView(await cancelReplay(context, BigInt(replay_id))) };
  },
});
