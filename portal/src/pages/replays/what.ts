import type { Replay } from '../../../../proto/gen/rms/portal/v1/replays_pb.ts';
import { inWords } from '../../words.ts';

export function kindText({ kind }: Replay): string {
  return kind === 'backfill' ? 'Backfill' : 'Replay';
}

/** What a job sends, such as `webhook 3, return.closed, exhausted`. */
export function whatText({ filter }: Replay): string {
  if (!filter) return '';
  const parts = [
    filter.webhookId === '0' ? 'all webhooks' : `webhook ${filter.webhookId}`,
    filter.trigger,
    filter.topic !== '' && filter.topic !== filter.trigger ? `topic ${filter.topic}` : '',
    filter.returnId === '0' ? '' : `return ${filter.returnId}`,
    filter.states.map(inWords).join(' or '),
  ];
  return parts.filter((part) => part !== '').join(', ');
}
