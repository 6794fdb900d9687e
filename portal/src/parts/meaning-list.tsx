import { Facts } from './facts.tsx';

/** What the words of this area mean, each in a sentence or two. */
const MEANINGS = {
  Event: 'What happens in your shop, such as “a return is closed”. The API calls it trigger.',
  Topic: 'Decides what a request tells your system: the whole return, or only one part of it.',
  Payload: 'The content of a request: JSON with the data of the event.',
  Waiting:
    'Not received yet. The service tries again by itself, with longer and longer pauses, for about three days.',
  Held: 'Its webhook is inactive. It is sent when you activate the webhook within 30 days.',
  'All attempts failed': 'The service gave up after about three days. You can send it again.',
  Expired: 'It was held for 30 days, and the service gave up. You can send it again.',
  Dropped: 'Its webhook was deleted before your system received it. It cannot be sent any more.',
  'Given up':
    'All attempts failed for about three days, or it was held for 30 days. Nothing more is sent until you send it again.',
  Replay: 'Sends deliveries again that were sent before, with the same webhook-id and payload.',
  Backfill: 'Sends stored events to a webhook that did not get them, such as a new one.',
} as const;

export type Meaning = keyof typeof MEANINGS;

/** What these words mean. */
export function MeaningList({ of }: { readonly of: readonly Meaning[] }) {
  return <Facts rows={of.map((word) => [word, MEANINGS[word]] as const)} />;
}
