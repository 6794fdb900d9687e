import { z } from 'zod';
import { previewReplay } from '../../actions/webhook-replays.ts';
import { defineTool, readOnlyHints } from '../tool.ts';
import { replayArguments, replayBodyOf, replayPreviewOutput } from '../views/replay.ts';

export const previewWebhookReplay = defineTool({
  name: 'preview_webhook_replay',
  title: 'Preview webhook replay',
  description:
    'Use this when you need to know how many deliveries start_webhook_replay with the same arguments would send. It starts nothing.',
  hints: readOnlyHints('the log of deliveries'),
  input: z.strictObject(replayArguments),
  output: replayPreviewOutput,
  run: (context, input) => previewReplay(context, replayBodyOf(input)),
});
