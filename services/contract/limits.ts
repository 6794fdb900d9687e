/** Limits that several services share. Imports no other file. Every service may import it. */

// Limits of the interface (interface: Limits). Lengths of texts are in Unicode characters.

export const DISPOSITION_ITEMS_MAX = 30;
export const RETURN_PROCESSOR_MAX = 100;
export const NOTE_MAX = 65_535;
export const IMAGE_MAX = 2_048;
export const DESTINATION_NAME_MAX = 191;
export const FRAUD_COMMENT_MAX = 512;

// Limits that are not in the interface. They are far above real use.

export const SHORT_TEXT_MAX = 191;
export const IMAGES_PER_ITEM_MAX = 100;
export const LABEL_URL_MAX = 2_048;
export const LABEL_LINES_MAX = 250;
/** Line items of one arrival, and its unexpected items. */
export const ARRIVAL_ITEMS_MAX = 250;
/** Maximum length of a note on arrived goods. Characters. */
export const ARRIVAL_NOTE_MAX = 2_000;
/** How long earlier signing secrets of a webhook, or of a commerce connection, sign after a rotation. Hours. */
export const SECRET_OVERLAP_HOURS_MAX = 168;
export const SECRET_OVERLAP_HOURS_DEFAULT = 24;
/** Maximum length of the header `Idempotency-Key`. Characters. */
export const IDEMPOTENCY_KEY_MAX = 200;
export const ADDRESS_TEXT_MAX = 255;
export const CART_ENTRIES_MAX = 500;
export const PROCESS_DETAILS_MAX = 50;
export const PROCESS_DETAILS_BYTES_MAX = 16 * 1024;
/** Number of rows on a page of a list. */
export const PAGE_MAX = 100;
export const PAGE_DEFAULT = 50;
/** Maximum length of a text that is searched for. Characters. */
export const SEARCH_TEXT_MAX = 320;
/** Maximum length of an e-mail address. Characters. */
export const EMAIL_MAX = 320;
/** Maximum length of the shopper's comment on a line item. Characters. */
export const SHOPPER_COMMENT_MAX = 2_000;
/** Maximum number of line items of a submission. */
export const SUBMITTED_LINES_MAX = 250;
export const FLAG_REASONS_MAX = 20;
/** Characters of the comment of a flag, and of the reason of a cancellation. */
export const COMMENT_MAX = 4_000;
export const CURSOR_MAX = 200;
export const BODY_BYTES_MAX = 1024 * 1024;
/** Large enough for thirty notes of the maximum length, with JSON escapes. Bytes. */
export const DISPOSITIONS_BODY_BYTES_MAX = 32 * 1024 * 1024;
/**
 * Maximum size of the details of one return, as JSON. A return of this size can still be read, processed and delivered.
 * Bytes.
 */
export const DETAILS_BYTES_MAX = 24 * 1024 * 1024;
export const JSON_DEPTH_MAX = 32;
/**
 * Maximum number of lists, objects and their entries in one body, because an empty list or object needs far more memory
 * than its two bytes.
 */
export const JSON_ENTRIES_MAX = 100_000;
/**
 * Maximum number of numbers in one body that are kept as text, such as `1.10`. They cost far more than other numbers.
 */
export const JSON_KEPT_NUMBERS_MAX = 10_000;
/**
 * A note or description of at most this size is in each snapshot. A longer text is stored once, by the returns service,
 * and snapshots have its hash. The dispositions service deletes its copy after the handover. Bytes in UTF-8.
 */
export const LONG_TEXT_BYTES = 2_000;

/** Maximum number of lines of an order, and of a refund, in an event of a merchant's platform. */
export const COMMERCE_LINES_MAX = 1_000;

/** Maximum size of an event of a merchant's platform (`POST /commerce/events/{shop_id}`). Bytes. */
export const COMMERCE_EVENT_BYTES_MAX = 256 * 1024;

/** Maximum size of a shop's policy for returns as JSON, because each submission reads it. Bytes. */
export const POLICY_BYTES_MAX = 512 * 1024;
