import { delivers } from '../../services/contract/views/payload.ts';
import { TOPICS, type Topic, TRIGGERS, type Trigger } from '../../services/contract/vocabulary.ts';

const TOPIC_TEXTS: Readonly<Record<Topic, string>> = {
  return: 'The whole return: items, amounts, labels, dispositions, customer.',
  'return.processing': 'Why the processing of a return failed.',
  label: 'A shipping label with its carrier and tracking number.',
  restock: 'The items that go back to stock, and where.',
  'label.request': 'What a label provider needs to make a label: addresses, parcel, products.',
  giftcard: 'The amount and the recipient of a gift card to issue.',
  'partner.returns.shipment': 'A shipment of returns that a partner processed.',
};

const TRIGGER_TEXTS: Readonly<Record<Trigger, string>> = {
  'return.created': 'A shopper submitted a return.',
  'return.updated': 'The details of a return changed.',
  'return.closed': 'A return was processed and archived.',
  'return.processing.failed': 'The processing of a return failed.',
  'label.created': 'A shipping label was made.',
  'label.updated': 'The carrier reported a new status of a parcel.',
  'restock.requested': 'Items are to be put back to stock.',
  'label.request.issued': 'A label is requested from a label provider.',
  'label.request.cancelled': 'A requested label is no longer needed.',
  'giftcard.requested': 'A gift card is to be issued.',
  'shipment.processed': 'A partner processed a shipment of returns.',
};

/** The topics with the triggers that each delivers, and all triggers, in the order of the interface. */
export function eventTypes() {
  return {
    topics: TOPICS.map((topic) => ({
      ...{ topic, description: TOPIC_TEXTS[topic] },
      delivers: TRIGGERS.filter((trigger) => delivers(topic, trigger)),
    })),
    triggers: TRIGGERS.map((name) => ({ name, description: TRIGGER_TEXTS[name] })),
  };
}
