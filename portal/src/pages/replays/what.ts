import type { Replay } from '../../../../proto/gen/rms/portal/v1/replays_pb.ts';
import { inWords } from '../../words.ts';
import { webhookText } from '../webhooks/name.ts';
import { useWebhookNames } from '../webhooks/use-webhook-names.ts';

export function kindText({ kind }: Replay): string {
  return kind === 'backfill' ? 'Backfill' : 'Replay';
}

/** Says what a job sends, such as `webhook 3, return.closed, exhausted`. */
export function useWhatText(): (job: Replay) => string {
  const named = useWebhookNames();
  return (job) => whatText(job, (id) => webhookText(named(id)));
}

function whatText({ filter }: Replay, textOf: (webhookId: string) => string): string {
  if (!filter) return '';
  const parts = [
    filter.webhookId === undefined ? 'all webhooks' : textOf(filter.webhookId),
    filter.trigger,
    filter.topic !== '' && filter.topic !== filter.trigger ? `topic ${filter.topic}` : '',
    filter.returnId === undefined ? '' : `return ${filter.returnId}`,
    filter.states.map(inWords).join(' or '),
  ];
  return parts.filter((part) => part !== '').join(', ');
}
