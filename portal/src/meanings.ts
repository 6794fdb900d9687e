import { STATE_MEANINGS } from './parts/status.tsx';

/**
 * What words of the portal mean, each in a sentence or two. The glossary of the repository has the words of the code.
 * Only a part that is loaded when it is opened may import this.
 */
export const MEANINGS = {
  // returns
  Outcome: 'What the shopper gets: a refund, store credit, an exchange, or parts of them.',
  'In review': STATE_MEANINGS.review,
  Grade: 'The condition in which an item came back: A is the best, D is the worst.',
  Disposition: 'What becomes of an item, such as back to stock or recycling.',
  // webhooks
  Event: 'What happens in your shop, such as “a return is closed”. The API calls it trigger.',
  Topic: 'Decides what a request tells its receiver: the whole return, or only one part of it.',
  Payload: 'The content of a request: JSON with the data of the event.',
  Deprecated: 'It still works, and will end: on the day in the column “Ends”.',
  Waiting:
    'Not received yet. The service tries again by itself, with longer and longer pauses, for about three days.',
  Held: STATE_MEANINGS.held,
  'All attempts failed': 'The service gave up after about three days. You can send it again.',
  Expired: 'It was held for 30 days, and the service gave up. You can send it again.',
  Dropped: 'Its webhook was deleted before it was received. It cannot be sent any more.',
  'Given up':
    'All attempts failed for about three days, or it was held for 30 days. Nothing more is sent until you send it again.',
  Replay: 'Sends deliveries again that were sent before, with the same webhook-id and payload.',
  Backfill: 'Sends stored events to a webhook that did not get them, such as a new one.',
  // team
  REST: 'The way for systems: they call the service with an API key. Its rights are scopes, not a role.',
  MCP: 'The way for AI assistants. They act for a person, with the role of this person.',
  Scope: 'A right of an API key. “Create an API key” has a sentence about each.',
} as const;

export type Term = keyof typeof MEANINGS;
