import { type Resource, ResourceNotFoundError } from '@modelcontextprotocol/server';
import {
  CONDITION_CATEGORIES,
  DELIVERY_STATES,
  DISPOSITION_OUTCOMES,
  FRAUD_CATEGORIES,
  LABEL_STATUSES,
  LINE_OUTCOMES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  TOPICS,
  TRIGGERS,
} from '../../services/contract/vocabulary.ts';

const VOCABULARY: Resource = {
  uri: 'rms://vocabulary',
  name: 'vocabulary',
  title: 'Vocabulary of returns',
  description:
    'All states, outcomes, statuses and categories of returns, lines, labels and webhooks.',
  mimeType: 'text/markdown',
};

/** Resources that clients can read. They are the same for every user and shop. */
export const RESOURCES: readonly Resource[] = [VOCABULARY];

/** Returns a resource. @throws ResourceNotFoundError */
export function readResource(uri: string) {
  if (uri !== VOCABULARY.uri) throw new ResourceNotFoundError(uri);
  return { contents: [{ uri, mimeType: 'text/markdown', text: VOCABULARY_TEXT }] };
}

const SECTIONS: readonly (readonly [string, string, readonly string[]])[] = [
  ['State of a return', '`review` means flagged: a person must decide first', RETURN_STATES],
  ['Outcome of a return', 'what the customer gets', RETURN_OUTCOMES],
  ['Outcome of a line', '`default` means the outcome of the return', LINE_OUTCOMES],
  ['Return method', 'how goods come back', RETURN_METHODS],
  ['Label status', '`delivered` is final', LABEL_STATUSES],
  ['Condition of a line', 'what grading found', CONDITION_CATEGORIES],
  ['Disposition outcome', 'where goods go after inspection', DISPOSITION_OUTCOMES],
  ['Fraud category', '`other` needs a comment', FRAUD_CATEGORIES],
  ['Webhook topic', 'selects the form of the payload', TOPICS],
  ['Webhook trigger', 'selects the event', TRIGGERS],
  [
    'Webhook delivery',
    '`exhausted` means that all attempts failed; it can be replayed',
    DELIVERY_STATES,
  ],
];

const VOCABULARY_TEXT = [
  '# Vocabulary of returns',
  ...SECTIONS.map(
    ([title, note, words]) =>
      `## ${title}\n\n${words.map((word) => `\`${word}\``).join(', ')}: ${note}.`,
  ),
].join('\n\n');
