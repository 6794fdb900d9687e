import type { OperationId } from '../operation.ts';

/** Bodies of gift cards that were issued. */

const CARD = { order_id: 7, amount: '8.00', currency: 'GBP' };
const DECIMAL = 'must be a decimal number in a string, such as "12.50".';

/** Valid bodies: operation, what is special, body. */
export const ACCEPTED_GIFT_CARDS: readonly [OperationId, string, object][] = [
  ['recordGiftCard', 'without a name', CARD],
  ['recordGiftCard', 'nulls', { ...CARD, order_name: null, issued_at: null }],
  ['recordGiftCard', 'a full name', { ...CARD, order_name: '\u{1f4e6}'.repeat(191) }],
];

/** Bodies that break one rule: operation, body, message of the response. */
export const REFUSED_GIFT_CARDS: readonly [OperationId, object, string][] = [
  ['recordGiftCard', {}, 'order_id is required.'],
  [
    'recordGiftCard',
    { ...CARD, order_id: '7' },
    'order_id must be an integer from 1 to 9007199254740991.',
  ],
  ['recordGiftCard', { ...CARD, amount: 8 }, `amount ${DECIMAL}`],
  ['recordGiftCard', { ...CARD, amount: '-8' }, `amount ${DECIMAL}`],
  ['recordGiftCard', { ...CARD, currency: ' ' }, 'currency is required.'],
  ['recordGiftCard', { ...CARD, currency: 'POUNDS' }, 'currency must be at most 3 characters.'],
  [
    'recordGiftCard',
    { ...CARD, order_name: 'x'.repeat(192) },
    'order_name must be at most 191 characters.',
  ],
  [
    'recordGiftCard',
    { ...CARD, issued_at: 'today' },
    'issued_at must be an RFC 3339 date-time with a UTC offset, such as 2026-07-01T12:00:00+00:00.',
  ],
];
