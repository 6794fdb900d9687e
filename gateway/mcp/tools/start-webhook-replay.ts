import { z } from 'zod';
import { startReplay } from '../../actions/webhook-replays.ts';
import { idempotencyKey } from '../fields.ts';
import { asIn } from '../result-schema.ts';
import { defineTool } from '../tool.ts';
import { replayArguments, replayBodyOf, replayOutput, replayOutputView } from '../views/replay.ts';

export const startWebhookReplay = defineTool({
  name: 'start_webhook_replay',
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
  async run(context, { idempotency_key: _, ...input }) {
    const replay = await startReplay(context, replayBodyOf(input), context.callId);
    return { replay: replayOutputView(replay) };
  },
});
