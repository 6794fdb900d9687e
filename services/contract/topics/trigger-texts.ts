import type { Trigger } from '../vocabulary.ts';

/**
 * When the event of each trigger is sent: one sentence for the portal, and sometimes a second text that only
 * docs/delivery.md has.
 */
export const TRIGGER_TEXTS: Readonly<Record<Trigger, readonly [string, string?]>> = {
  'return.created': ['A return is submitted.'],
  'return.updated': [
    'The details of a return changed.',
    'Once for each change that neither submitted nor closed it: edits, labels, gradings, dispositions, flags, cancelling, expiry, opening again. Notes and timeline entries do not count.',
  ],
  'return.closed': ['A return was processed.', 'Its state became `closed`.'],
  'return.processing.failed': [
    'The processing of a return failed permanently.',
    'A new process request continues with the missing steps.',
  ],
  'label.created': ['A shipping label appears.'],
  'label.updated': ['The status or the tracking number of a label changes.'],
  'restock.requested': [
    'Items are to be put back to stock.',
    "A return is processed and the shop's restock mode is `webhook`.",
  ],
  'label.request.issued': [
    'A label is needed from a label provider.',
    "The shop's labels come from a third party. Its response is `POST /returns/{id}/labels`, then `PUT /labels/{id}` for each carrier update.",
  ],
  'label.request.cancelled': [
    'A label that was requested is no longer needed.',
    'The label request was open, and somebody cancelled it, or the return was closed, was cancelled or expired.',
  ],
  'giftcard.requested': [
    'A gift card is to be issued.',
    'A return with gift-card credit is processed and the shop issues its gift cards elsewhere. Its response is `POST /returns/{id}/gift-card`.',
  ],
  'shipment.processed': ['A consolidated shipment of a partner was recorded.'],
};
