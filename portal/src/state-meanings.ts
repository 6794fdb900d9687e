/** What states mean whose names do not say it. Apart from the other meanings, because every page loads these. */
export const STATE_MEANINGS = {
  review: 'Somebody must look at the return before it can be processed.',
  held: 'Its webhook is inactive. It is sent when you activate the webhook within 30 days.',
} as const;

/** What a state means; undefined when its name says it. */
export function meaningOf(state: string): string | undefined {
  return state === 'review' || state === 'held' ? STATE_MEANINGS[state] : undefined;
}
