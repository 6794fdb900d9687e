import {
  DeliveryStateSchema,
  type Replay,
  ReplayKind,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { inWords, wordOf } from '../../words.ts';
import { useWebhookNames } from '../webhooks/use-webhooks.ts';
import { webhookText } from '../webhooks/webhook.ts';

export function kindText({ kind }: Replay): string {
  return kind === ReplayKind.BACKFILL ? 'Backfill' : 'Replay';
}

/** Says what a job sends, such as `webhook 3, return.closed, exhausted`. */
export function useWhatText(): (job: Replay) => string {
  const named = useWebhookNames();
  return (job) => whatText(job, (id) => webhookText(named(id)));
}

function whatText({ filter }: Replay, textOf: (webhookId: bigint) => string): string {
  if (!filter) return '';
  const parts = [
    filter.subscriptionId === 0n ? 'all webhooks' : textOf(filter.subscriptionId),
    filter.trigger,
    filter.topic !== '' && filter.topic !== filter.trigger ? `topic ${filter.topic}` : '',
    filter.returnId === 0n ? '' : `return ${filter.returnId}`,
    filter.states.map((state) => inWords(wordOf(DeliveryStateSchema, state))).join(' or '),
  ];
  return parts.filter((part) => part !== '').join(', ');
}
