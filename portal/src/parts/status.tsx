import { Badge, type MantineColor } from '@mantine/core';
import { inWords } from '../words.ts';

/** What a state means, in one word and one colour. The word alone carries the meaning. */
const LOOKS: Readonly<Record<string, readonly [MantineColor, string?]>> = {
  // webhooks
  healthy: ['green'],
  failing: ['red'],
  deactivated: ['red', 'Deactivated by the service'],
  inactive: ['gray'],
  paused: ['red', 'The address fails'],
  idle: ['gray', 'Nothing sent in 24 hours'],
  untried: ['gray', 'Not tried since its change'],
  active: ['green'],
  // destinations
  enabled: ['green'],
  disabled: ['gray'],
  // deliveries and jobs
  waiting: ['blue'],
  held: ['yellow', 'Held'],
  delivered: ['green'],
  exhausted: ['red', 'All attempts failed'],
  expired: ['gray'],
  dropped: ['gray'],
  running: ['blue'],
  done: ['green'],
  passed: ['green'],
  failed: ['red'],
  cancelled: ['gray'],
  // returns
  open: ['blue'],
  review: ['yellow', 'In review'],
  fraud_reported: ['red', 'Fraud report'],
  closed: ['green'],
  // versions and keys
  deprecated: ['yellow'],
  sunset: ['red', 'Ended'],
  unstable: ['yellow'],
  valid: ['green'],
  replaced: ['yellow'],
  revoked: ['gray'],
};

export function Status({ state }: { readonly state: string }) {
  const [color = 'gray', text = inWords(state)] = LOOKS[state] ?? [];
  return (
    <Badge
      color={color}
      variant="light"
      tt="none"
      fw={600}
      autoContrast={false}
      miw="max-content"
      title={meaningOf(state)}
    >
      {text}
    </Badge>
  );
}

/** What states mean whose names do not say it. Apart from the other meanings, because every page loads these. */
export const STATE_MEANINGS = {
  review: 'Somebody must look at the return before it can be processed.',
  held: 'Its webhook is inactive. It is sent when you activate the webhook within 30 days.',
} as const;

/** What a state means; undefined when its name says it. */
function meaningOf(state: string): string | undefined {
  return state === 'review' || state === 'held' ? STATE_MEANINGS[state] : undefined;
}
