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
  title: 'Words of returns',
  description:
    'Every word that returns, their lines, labels and webhooks use for where they stand.',
  mimeType: 'text/markdown',
};

/** Resources that clients can read without a tool. They are the same for every user and shop. */
export const RESOURCES: readonly Resource[] = [VOCABULARY];

/** @throws ResourceNotFoundError */
export function readResource(uri: string) {
  if (uri !== VOCABULARY.uri) throw new ResourceNotFoundError(uri);
  return { contents: [{ uri, mimeType: 'text/markdown', text: VOCABULARY_TEXT }] };
}

const SECTIONS: readonly (readonly [string, string, readonly string[]])[] = [
  ['State of a return', '`review` is flagged: a person decides first', RETURN_STATES],
  ['Outcome of a return', 'what the customer gets', RETURN_OUTCOMES],
  ['Outcome of a line', '`default` follows the return', LINE_OUTCOMES],
  ['Return method', 'how goods come back', RETURN_METHODS],
  ['Label status', '`delivered` is final', LABEL_STATUSES],
  ['Condition of a line', 'what grading found', CONDITION_CATEGORIES],
  ['Disposition outcome', 'where goods go after inspection', DISPOSITION_OUTCOMES],
  ['Fraud category', '`other` needs a comment', FRAUD_CATEGORIES],
  ['Webhook topic', 'picks the shape of the payload', TOPICS],
  ['Webhook trigger', 'picks the event', TRIGGERS],
  ['Webhook delivery', '`exhausted` used up its retries and can be replayed', DELIVERY_STATES],
];

const VOCABULARY_TEXT = [
  '# Words of returns',
  ...SECTIONS.map(
    ([title, note, words]) =>
      `## ${title}\n\n${words.map((word) => `\`${word}\``).join(', ')}: ${note}.`,
  ),
].join('\n\n');
