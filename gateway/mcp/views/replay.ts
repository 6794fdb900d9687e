import { z } from 'zod';
import type { Replay } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { choice, typed } from '../../../services/contract/resources/fields.ts';
import {
  type ReplayBody,
  replayFaults,
} from '../../../services/contract/resources/webhook-replay.ts';
import { replayView } from '../../../services/contract/views/webhook-replay.ts';
import {
  DELIVERY_STATES,
  REPLAY_KINDS,
  REPLAY_STATES,
  UNREPLAYABLE_REASONS,
} from '../../../services/contract/vocabulary.ts';
import { restriction } from '../argument-schema.ts';
import { namedId, otherTrigger, time } from '../fields.ts';
import { described } from '../result-schema.ts';
import { ToolError } from '../tool.ts';

/** The arguments that select what a replay or a backfill sends. The preview and the start have the same arguments. */
export const replayArguments = {
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
export function replayBodyOf(input: ReplayBody): ReplayBody {
  const faults = replayFaults(input).map(({ field, message }) => `${field} ${message}.`);
  if (faults.length > 0) throw new ToolError(`Invalid arguments: ${faults.join(' ')}`);
  return input;
}

const count = () => z.int();
const when = () => z.string().nullable();

/** A replay or a backfill with its progress. Almost no field has a description, because REST describes them. */
export const replayOutput = z.strictObject({
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

export function replayOutputView(replay: Replay): z.output<typeof replayOutput> {
  const { filter, ...shown } = replayView(replay);
  return { ...shown, webhook_id: filter.webhook_id };
}

/** What a replay or a backfill would send. */
export const replayPreviewOutput = z.strictObject({
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
