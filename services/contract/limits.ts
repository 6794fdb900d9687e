/**
 * Constants and text rules of the public interface. Depends on nothing: beside `exact-json.ts` the one
 * file of the contract that every service may import.
 */

/** What a webhook subscription's payload can be about (interface: Webhook subscription). */
export const TOPICS = [
  'return',
  'return.processing',
  'label',
  'restock',
  'label.request',
  'giftcard',
  'partner.returns.shipment',
] as const;
export type Topic = (typeof TOPICS)[number];

/** The events a webhook subscription can wait for (interface: Webhook subscription). */
export const TRIGGERS = [
  'return.created',
  'return.updated',
  'return.closed',
  'return.processing.failed',
  'label.created',
  'label.updated',
  'restock.requested',
  'label.request.issued',
  'label.request.cancelled',
  'giftcard.requested',
  'shipment.processed',
] as const;
export type Trigger = (typeof TRIGGERS)[number];

/** Interface: Webhook status. */
export const WEBHOOK_STATUSES = ['active', 'inactive'] as const;

/** Where a webhook's delivery stands. */
export const DELIVERY_STATES = [
  'waiting',
  'held',
  'delivered',
  'exhausted',
  'expired',
  'dropped',
] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** Interface: Disposition item. */
export const DISPOSITION_OUTCOMES = [
  'back_to_stock',
  'resale_hold',
  'recycle',
  'donate',
  'missing',
] as const;

/** Interface: Destination. */
export const DESTINATION_TYPES = ['warehouse', 'donate'] as const;

/** Interface: Fraud report. The last one needs a comment. */
export const FRAUD_CATEGORIES = [
  'package-never-received',
  'package-is-empty',
  'package-is-missing-items',
  'instant-return-charge-failed',
  'keep-item-abuse',
  'splitting-returns-to-avoid-restrictions',
  'item-is-worn',
  'other',
] as const;
export type FraudCategory = (typeof FRAUD_CATEGORIES)[number];

/** What grading may find: the values that 2026-07 answers as they are. */
export const CONDITION_CATEGORIES = [
  'grade_a',
  'grade_b',
  'grade_c',
  'grade_d',
  'incorrect_item',
  'missing',
  'junk',
] as const;
export type ConditionCategory = (typeof CONDITION_CATEGORIES)[number];

export const RETURN_STATES = ['open', 'review', 'closed', 'cancelled', 'expired'] as const;
export const RETURN_TYPES = ['standard', 'warranty'] as const;
export const RETURN_OUTCOMES = [
  'exchange',
  'upsell',
  'refund',
  'credit',
  'exchange+refund',
  'exchange+credit',
] as const;
export const LINE_OUTCOMES = ['exchange', 'refund', 'credit', 'default'] as const;
export const RETURN_METHODS = ['mail', 'in_store', 'drop_off', 'keep_item'] as const;
export const LABEL_STATUSES = [
  'new',
  'pre_transit',
  'in_transit',
  'out_for_delivery',
  'delivered',
  'error',
  'failure',
] as const;
export const CURRENCY_TYPES = ['shop', 'presentment'] as const;
export type CurrencyType = (typeof CURRENCY_TYPES)[number];

/** Largest id: what a JSON number holds exactly. */
export const MAX_ID = 2n ** 53n - 1n;

/** Interface: Limits. Texts are counted in Unicode characters. */
export const DISPOSITION_ITEMS_MAX = 30;
export const RETURN_PROCESSOR_MAX = 100;
export const NOTE_MAX = 65_535;
export const IMAGE_MAX = 2_048;
export const DESTINATION_NAME_MAX = 191;
export const FRAUD_COMMENT_MAX = 512;

/** Bounds of this service's own, far above real use. */
export const IMAGES_PER_ITEM_MAX = 100;
export const ADDRESS_TEXT_MAX = 255;
export const CART_ENTRIES_MAX = 500;
export const PROCESS_DETAILS_MAX = 50;
export const PROCESS_DETAILS_BYTES_MAX = 16 * 1024;
export const WEBHOOK_URL_MAX = 2_048;
export const ORDER_NAME_MAX = 191;
export const DELIVERIES_PAGE_MAX = 100;
export const DELIVERIES_PAGE_DEFAULT = 50;
export const CURSOR_MAX = 200;
export const BODY_BYTES_MAX = 1024 * 1024;
/** Thirty full notes with escapes are legal. */
export const DISPOSITIONS_BODY_BYTES_MAX = 32 * 1024 * 1024;
/** Details of one return, as JSON: whatever is accepted can be read, processed and delivered. */
export const DETAILS_BYTES_MAX = 24 * 1024 * 1024;
export const JSON_DEPTH_MAX = 32;
/** Lists, objects and their entries in one body: empty ones cost far more memory than bytes. */
export const JSON_ENTRIES_MAX = 100_000;
/** Numbers of one body that are kept as their text, such as `1.10`: they cost far more than others. */
export const JSON_KEPT_NUMBERS_MAX = 10_000;

const BASE64 = /^[A-Za-z0-9+/]*(={0,2})$/;

/** How many Unicode characters a text has: a surrogate pair is one. */
export function characters(text: string): number {
  let count = text.length;
  let isAfterHigh = false;
  // Each unit is read once: notes of megabytes are counted in every service.
  for (let index = 0; index < text.length; index++) {
    const kind = text.charCodeAt(index) & SURROGATE_BITS;
    if (isAfterHigh && kind === LOW) count--;
    isAfterHigh = kind === HIGH;
  }
  return count;
}

/** Where these bits of a UTF-16 unit say that it is half of a pair, and which half. */
const SURROGATE_BITS = 0xfc00;
const HIGH = 0xd800;
const LOW = 0xdc00;

/** Whether a text has at most `max` Unicode characters; cheap for short texts. */
export function fits(text: string, max: number): boolean {
  return text.length <= max || (text.length <= 2 * max && characters(text) <= max);
}

/** Whether a text can be stored and sent on: no NUL, no half of a surrogate pair. */
export function cleanText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/** Whether a text is empty or only white space: a required one then counts as missing. */
export function blank(text: string): boolean {
  return text.trim() === '';
}

/** Whether a text is Base64 (RFC 4648 section 4), padded or not. The content is not looked at. */
export function isBase64(text: string): boolean {
  const padding = BASE64.exec(text)?.[1];
  if (padding === undefined) return false;
  return padding === '' ? text.length % 4 !== 1 : text.length % 4 === 0;
}
