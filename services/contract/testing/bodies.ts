import type { OperationId } from '../operation.ts';
import { TOPICS, TRIGGERS } from '../vocabulary.ts';
import { ACCEPTED_GIFT_CARDS, REFUSED_GIFT_CARDS } from './gift-card-bodies.ts';
import { ACCEPTED_REPLAYS, REFUSED_REPLAYS } from './replay-bodies.ts';

const WEBHOOK = { topic: 'return', trigger: 'return.closed', url: 'https://example.com/hook' };
const MAX = Number.MAX_SAFE_INTEGER;
const ID_RULE = 'must be an integer from 1 to 9007199254740991.';
const CHARACTERS = 'must not contain NUL or unpaired surrogate characters.';
const DECIMAL = 'must be a decimal number in a string, such as "12.50".';
const TIME_RULE =
  'must be an RFC 3339 date-time with a UTC offset, such as 2026-07-01T12:00:00+00:00.';
const OVERLAP_RULE = 'must be a whole number from 0 to 168.';
const LABEL = {
  carrier: 'Evri',
  tracking_number: 'EV1',
  url: 'https://labels.example/1',
  rate: '3.20',
  created_at: '2026-11-20T10:00:00+01:00',
};
const CARRIER_UPDATE = { status: 'in_transit', occurred_at: '2026-11-20T10:00:00Z' };
const BOX = '\u{1f4e6}';
/** An assessment of one line. */
export const item = (fields: object) => ({ items: [{ line_item_id: 1, ...fields }] });
/** A grading of one line. */
const grading = (fields: object) => item({ category: 'grade_b', ...fields });
const repeated = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => make(index));

/** Valid bodies: operation, what is special, body. */
export const ACCEPTED: readonly [OperationId, string, object][] = [
  ['createWebhook', 'without a status', WEBHOOK],
  ['updateWebhook', 'a null status', { ...WEBHOOK, status: null }],
  ['updateWebhook', 'a pair that never delivers', { ...WEBHOOK, trigger: 'shipment.processed' }],
  [
    'createWebhook',
    'an address that only the webhooks service validates',
    { ...WEBHOOK, url: 'nope' },
  ],
  ['createWebhook', 'an address too long', { ...WEBHOOK, url: `https://${'a'.repeat(3000)}` }],
  ['testWebhook', 'an empty body', {}],
  ['testWebhook', 'a trigger', { trigger: 'label.created' }],
  ['testWebhook', 'nulls', { trigger: null }],
  ['rotateWebhookSecret', 'an empty body', {}],
  ['rotateWebhookSecret', 'no overlap', { overlap_hours: 0 }],
  ['rotateWebhookSecret', 'the longest overlap', { overlap_hours: 168 }],
  ['rotateWebhookSecret', 'nulls', { overlap_hours: null }],
  ...ACCEPTED_REPLAYS,
  ['assessDispositions', 'only a line', item({})],
  ['assessDispositions', 'unknown fields', item({ colour: 'red' })],
  ['assessDispositions', 'nulls', item({ note: null, return_processor: null, images: null })],
  ['assessDispositions', 'a null outcome', item({ disposition_outcome: null, inspected_at: null })],
  ['assessDispositions', 'a full note', item({ note: BOX.repeat(65_535) })],
  ['assessDispositions', 'a full processor', item({ return_processor: BOX.repeat(100) })],
  ['assessDispositions', 'full images', item({ images: repeated(100, () => BOX.repeat(2048)) })],
  ['assessDispositions', 'thirty', { items: repeated(30, (n) => ({ line_item_id: n + 1 })) }],
  ['assessDispositions', 'the largest id', { items: [{ line_item_id: MAX }] }],
  ['gradeItems', 'only a category', grading({})],
  ['gradeItems', 'nulls', grading({ subject: null, title: null, description: null, note: null })],
  [
    'gradeItems',
    'full texts',
    grading({ title: BOX.repeat(191), description: BOX.repeat(65_535) }),
  ],
  ['updateDestination', 'only a name', { name: 'Depot' }],
  ['updateDestination', 'a full name', { name: BOX.repeat(191) }],
  ['updateDestination', 'nulls', { name: 'D', type: null, enabled: null, address: null }],
  ['updateDestination', 'an empty address', { name: 'D', address: {} }],
  ['updateDestination', 'a code in lower case', { name: 'D', address: { country_code: 'gb' } }],
  ['updateDestination', 'a null part', { name: 'D', address: { city: null, phone: '' } }],
  ['createFraudReport', 'an empty body', {}],
  ['createFraudReport', 'nulls', { category: null, comment: null }],
  ['createFraudReport', 'a category without a comment', { category: 'item-is-worn' }],
  ['createFraudReport', 'other with a comment', { category: 'other', comment: 'odd' }],
  ['createFraudReport', 'a full comment', { comment: BOX.repeat(512) }],
  ['recordLabel', 'only a carrier', { carrier: 'Evri' }],
  ['recordLabel', 'nulls', { ...LABEL, url: null, rate: null, line_item_ids: null }],
  ['recordLabel', 'a full label', { ...LABEL, line_item_ids: repeated(250, (n) => n + 1) }],
  ['recordLabel', 'no line items', { ...LABEL, line_item_ids: [] }],
  ['updateLabel', 'without a tracking number', CARRIER_UPDATE],
  [
    'updateLabel',
    'a full tracking number',
    { ...CARRIER_UPDATE, tracking_number: BOX.repeat(191) },
  ],
  ...ACCEPTED_GIFT_CARDS,
  ['processReturn', 'an empty body', {}],
  ['processReturn', 'flat values', { a: 'x', b: 1.5, c: true, d: null, '': '' }],
  ['processReturn', 'fifty keys', Object.fromEntries(repeated(50, (n) => [`k${n}`, n]))],
  ['createCart', 'an id', { cart: [MAX] }],
  ['createCart', 'an object', { cart: [{ variant_id: 1, quantity: 2, properties: { a: [1] } }] }],
  ['createCart', 'five hundred', { cart: repeated(500, (n) => n + 1) }],
  ['createCart', 'a null shopify', { cart: [1], shopify: null }],
  ['createCart', 'an unpadded shopify', { cart: [1], shopify: 'YQ' }],
];

/** Bodies that break one rule: operation, body, message of the response. */
export const REFUSED: readonly [OperationId, object, string][] = [
  ['createWebhook', {}, 'topic is required.'],
  ['updateWebhook', {}, 'topic is required.'],
  ['createWebhook', { ...WEBHOOK, topic: null }, 'topic is required.'],
  ['createWebhook', { ...WEBHOOK, topic: 'returns' }, `topic must be one of ${TOPICS.join(', ')}.`],
  ['createWebhook', { ...WEBHOOK, trigger: undefined }, 'trigger is required.'],
  ['createWebhook', { ...WEBHOOK, url: undefined }, 'url is required.'],
  ['createWebhook', { ...WEBHOOK, url: ' \t' }, 'url is required.'],
  ['createWebhook', { ...WEBHOOK, url: 7 }, 'url must be a string.'],
  ['createWebhook', { ...WEBHOOK, url: 'https://a/\0' }, `url ${CHARACTERS}`],
  ['createWebhook', { ...WEBHOOK, status: 'on' }, 'status must be one of active, inactive.'],
  ['testWebhook', { trigger: 'return' }, `trigger must be one of ${TRIGGERS.join(', ')}.`],
  ['rotateWebhookSecret', { overlap_hours: -1 }, `overlap_hours ${OVERLAP_RULE}`],
  ['rotateWebhookSecret', { overlap_hours: 169 }, `overlap_hours ${OVERLAP_RULE}`],
  ['rotateWebhookSecret', { overlap_hours: 0.5 }, `overlap_hours ${OVERLAP_RULE}`],
  ['rotateWebhookSecret', { overlap_hours: '24' }, `overlap_hours ${OVERLAP_RULE}`],
  ...REFUSED_REPLAYS,
  ['assessDispositions', {}, 'items is required.'],
  ['assessDispositions', { items: null }, 'items is required.'],
  ['assessDispositions', { items: {} }, 'items must be a list.'],
  ['assessDispositions', { items: [] }, 'items must have at least 1 entry.'],
  [
    'assessDispositions',
    { items: repeated(31, (n) => ({ line_item_id: n + 1 })) },
    'items must have at most 30 entries.',
  ],
  ['assessDispositions', { items: [7] }, 'items[0] must be an object.'],
  ['assessDispositions', { items: [null] }, 'items[0] is required.'],
  ['assessDispositions', { items: [{}] }, 'items[0].line_item_id is required.'],
  ['assessDispositions', { items: [{ line_item_id: '1' }] }, `items[0].line_item_id ${ID_RULE}`],
  ['assessDispositions', { items: [{ line_item_id: 1.5 }] }, `items[0].line_item_id ${ID_RULE}`],
  ['assessDispositions', { items: [{ line_item_id: 0 }] }, `items[0].line_item_id ${ID_RULE}`],
  ['assessDispositions', { items: [{ line_item_id: -1 }] }, `items[0].line_item_id ${ID_RULE}`],
  [
    'assessDispositions',
    { items: [{ line_item_id: 2 ** 53 }] },
    `items[0].line_item_id ${ID_RULE}`,
  ],
  [
    'assessDispositions',
    { items: [{ line_item_id: 1 }, { line_item_id: 2 }, { line_item_id: 1 }] },
    'items[2].line_item_id must not name a line item twice.',
  ],
  [
    'assessDispositions',
    item({ disposition_outcome: 'sell' }),
    'items[0].disposition_outcome must be one of back_to_stock, resale_hold, recycle, donate, missing.',
  ],
  [
    'assessDispositions',
    item({ note: BOX.repeat(65_536) }),
    'items[0].note must be at most 65535 characters.',
  ],
  [
    'assessDispositions',
    item({ return_processor: 'x'.repeat(101) }),
    'items[0].return_processor must be at most 100 characters.',
  ],
  ['assessDispositions', item({ note: 'a\ud83d' }), `items[0].note ${CHARACTERS}`],
  ['assessDispositions', item({ note: 1 }), 'items[0].note must be a string.'],
  [
    'assessDispositions',
    item({ inspected_at: '2026-02-29T00:00:00Z' }),
    `items[0].inspected_at ${TIME_RULE}`,
  ],
  ['assessDispositions', item({ images: 'x' }), 'items[0].images must be a list.'],
  ['assessDispositions', item({ images: [1] }), 'items[0].images[0] must be a string.'],
  [
    'assessDispositions',
    item({ images: ['', 'x'.repeat(2049)] }),
    'items[0].images[1] must be at most 2048 characters.',
  ],
  [
    'assessDispositions',
    item({ images: repeated(101, () => 'x') }),
    'items[0].images must have at most 100 entries.',
  ],
  ['gradeItems', { items: [] }, 'items must have at least 1 entry.'],
  [
    'gradeItems',
    { items: repeated(31, (n) => ({ line_item_id: n + 1, category: 'junk' })) },
    'items must have at most 30 entries.',
  ],
  ['gradeItems', item({}), 'items[0].category is required.'],
  [
    'gradeItems',
    grading({ category: 'grade_e' }),
    'items[0].category must be one of grade_a, grade_b, grade_c, grade_d, incorrect_item, missing, junk.',
  ],
  [
    'gradeItems',
    grading({ title: 'x'.repeat(192) }),
    'items[0].title must be at most 191 characters.',
  ],
  [
    'gradeItems',
    grading({ description: 'x'.repeat(65_536) }),
    'items[0].description must be at most 65535 characters.',
  ],
  ['gradeItems', grading({ note: 'a\0' }), `items[0].note ${CHARACTERS}`],
  ['updateDestination', {}, 'name is required.'],
  ['updateDestination', { name: '  ' }, 'name is required.'],
  ['updateDestination', { name: null }, 'name is required.'],
  ['updateDestination', { name: 'x'.repeat(192) }, 'name must be at most 191 characters.'],
  ['updateDestination', { name: 'a\0' }, `name ${CHARACTERS}`],
  ['updateDestination', { name: 'D', type: 'shop' }, 'type must be one of warehouse, donate.'],
  ['updateDestination', { name: 'D', enabled: 'yes' }, 'enabled must be true or false.'],
  ['updateDestination', { name: 'D', address: 'x' }, 'address must be an object.'],
  ['updateDestination', { name: 'D', address: { city: 1 } }, 'address.city must be a string.'],
  [
    'updateDestination',
    { name: 'D', address: { country_code: 'GBR' } },
    'address.country_code must be two ASCII letters.',
  ],
  [
    'updateDestination',
    { name: 'D', address: { zip: 'x'.repeat(256) } },
    'address.zip must be at most 255 characters.',
  ],
  ['createFraudReport', { category: 'other' }, 'comment is required when category is other.'],
  [
    'createFraudReport',
    { category: 'other', comment: ' \n' },
    'comment is required when category is other.',
  ],
  ['createFraudReport', { comment: 'x'.repeat(513) }, 'comment must be at most 512 characters.'],
  [
    'createFraudReport',
    { category: 'Other' },
    'category must be one of package-never-received, package-is-empty, package-is-missing-items, instant-return-charge-failed, keep-item-abuse, splitting-returns-to-avoid-restrictions, item-is-worn, other.',
  ],
  ['recordLabel', {}, 'carrier is required.'],
  ['recordLabel', { carrier: ' ' }, 'carrier is required.'],
  ['recordLabel', { carrier: 'x'.repeat(192) }, 'carrier must be at most 191 characters.'],
  [
    'recordLabel',
    { ...LABEL, tracking_number: 'x'.repeat(192) },
    'tracking_number must be at most 191 characters.',
  ],
  ['recordLabel', { ...LABEL, url: 'x'.repeat(2049) }, 'url must be at most 2048 characters.'],
  ['recordLabel', { ...LABEL, rate: 3.2 }, `rate ${DECIMAL}`],
  ['recordLabel', { ...LABEL, rate: '-3' }, `rate ${DECIMAL}`],
  ['recordLabel', { ...LABEL, rate: '3,20' }, `rate ${DECIMAL}`],
  ['recordLabel', { ...LABEL, line_item_ids: 1 }, 'line_item_ids must be a list.'],
  ['recordLabel', { ...LABEL, line_item_ids: ['1'] }, `line_item_ids[0] ${ID_RULE}`],
  [
    'recordLabel',
    { ...LABEL, line_item_ids: repeated(251, (n) => n + 1) },
    'line_item_ids must have at most 250 entries.',
  ],
  ['recordLabel', { ...LABEL, created_at: '2026-11-20' }, `created_at ${TIME_RULE}`],
  ['updateLabel', { occurred_at: CARRIER_UPDATE.occurred_at }, 'status is required.'],
  [
    'updateLabel',
    { ...CARRIER_UPDATE, status: 'lost' },
    'status must be one of new, pre_transit, in_transit, out_for_delivery, delivered, error, failure.',
  ],
  ['updateLabel', { status: 'new' }, 'occurred_at is required.'],
  ['updateLabel', { ...CARRIER_UPDATE, occurred_at: 'now' }, `occurred_at ${TIME_RULE}`],
  ['updateLabel', { ...CARRIER_UPDATE, tracking_number: 'a\0' }, `tracking_number ${CHARACTERS}`],
  ...REFUSED_GIFT_CARDS,
  ['processReturn', { a: {} }, 'a must be a string, a number, true, false or null.'],
  ['processReturn', { a: [] }, 'a must be a string, a number, true, false or null.'],
  [
    'processReturn',
    { a: Number.POSITIVE_INFINITY },
    'a must be a string, a number, true, false or null.',
  ],
  ['processReturn', { a: 'x\0' }, `a ${CHARACTERS}`],
  ['processReturn', { 'a\0': 1 }, `a\ufffd ${CHARACTERS}`],
  ['processReturn', { a: 'x'.repeat(16_384) }, 'body must be at most 16 KiB.'],
  [
    'processReturn',
    Object.fromEntries(repeated(51, (n) => [`k${n}`, n])),
    'body must have at most 50 keys.',
  ],
  ['createCart', {}, 'cart is required.'],
  ['createCart', { cart: [] }, 'cart must have at least 1 entry.'],
  ['createCart', { cart: repeated(501, () => 1) }, 'cart must have at most 500 entries.'],
  ['createCart', { cart: [0] }, `cart[0] ${ID_RULE}`],
  ['createCart', { cart: [1, 1.5] }, `cart[1] ${ID_RULE}`],
  [
    'createCart',
    { cart: ['1'] },
    'cart[0] must be an integer variant id or an object with variant_id.',
  ],
  [
    'createCart',
    { cart: [[1]] },
    'cart[0] must be an integer variant id or an object with variant_id.',
  ],
  [
    'createCart',
    { cart: [null] },
    'cart[0] must be an integer variant id or an object with variant_id.',
  ],
  ['createCart', { cart: [{}] }, 'cart[0].variant_id is required.'],
  ['createCart', { cart: [{ variant_id: '1' }] }, `cart[0].variant_id ${ID_RULE}`],
  ['createCart', { cart: [{ variant_id: 1, a: { b: ['\0'] } }] }, `cart[0] ${CHARACTERS}`],
  ['createCart', { cart: [1], shopify: 'a b' }, 'shopify must be a Base64 string.'],
  ['createCart', { cart: [1], shopify: 7 }, 'shopify must be a Base64 string.'],
];
