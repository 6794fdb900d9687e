/** What words of the portal mean, one plain sentence each. The glossary of the repository has the words of the code. */
export const MEANINGS = {
  outcome:
    'The outcome is what the shopper gets: a refund, store credit, an exchange, or parts of them.',
  review: 'In review means that somebody must look at the return before it can be processed.',
  grade: 'A grade is the condition in which an item came back: A is the best, D is the worst.',
  disposition: 'A disposition says what becomes of an item, such as back to stock or recycling.',
  held: 'Held means that the delivery waits until its webhook is active again.',
} as const;

export type Term = keyof typeof MEANINGS;

/** What a state means; undefined when its name says it. */
export function meaningOf(state: string): string | undefined {
  return state === 'review' || state === 'held' ? MEANINGS[state] : undefined;
}
