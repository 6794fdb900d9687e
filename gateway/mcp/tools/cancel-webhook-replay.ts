import { z } from 'zod';
import { cancelReplay } from '../../actions/webhook-replays.ts';
import { idempotencyKey, namedId } from '../fields.ts';
import { asIn } from '../result-schema.ts';
import { defineTool } from '../tool.ts';
import { replayOutput, replayOutputView } from '../views/replay.ts';

export const cancelWebhookReplay = defineTool({
  name: 'cancel_webhook_replay',
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
  async run(context, { replay_id }) {
    return { replay: replayOutputView(await cancelReplay(context, BigInt(replay_id))) };
  },
});
