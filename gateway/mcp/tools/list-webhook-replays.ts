import { z } from 'zod';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { getReplay, listReplays } from '../../actions/webhook-replays.ts';
import { cursor, limit, namedId, nextCursor } from '../fields.ts';
import { defineTool, readOnlyHints } from '../tool.ts';
import { replayOutput, replayOutputView } from '../views/replay.ts';

export const listWebhookReplays = defineTool({
  name: 'list_webhook_replays',
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
  output: z.strictObject({ replays: z.array(replayOutput), next_cursor: nextCursor }),
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
