import type { ActionName } from '../../../gateway/actions/permissions.ts';
import {
  COMMENT_MAX,
  FLAG_REASONS_MAX,
  SHORT_TEXT_MAX,
} from '../../../services/contract/limits.ts';
import type { OperationId } from '../../../services/contract/operation.ts';
import type { Sent } from '../gateway/rest-client.ts';
import { MISSING_DELIVERY } from '../journeys/expected-errors.ts';
import type { StackShop } from '../stack.ts';
import { at, costlyWebhookRequests } from './costly-webhook-requests.ts';

const NOTE_MAX = 65_535;
const ENTRIES_MAX = 100_000;
const BODY_MAX = 1024 * 1024;
/** Maximum count of numbers whose text the gateway keeps. */
const KEPT_NUMBERS = 10_000;

/** Values of an unknown field, which the gateway ignores. Each makes a body as expensive to parse as the limits allow. */
export const FILLINGS: Readonly<Record<string, string>> = {
  'nothing else': 'null',
  'a text of 1 MiB': `"${'x'.repeat(BODY_MAX - 4_096)}"`,
  'escapes of 1 MiB': `"${'\\u00e9'.repeat((BODY_MAX - 4_096) / 6)}"`,
  'as many numbers as a body may have': `[${'1.10,'.repeat(KEPT_NUMBERS)}${'1,'.repeat(ENTRIES_MAX - KEPT_NUMBERS - 3_000)}0]`,
  'as many objects as a body may have': `[${'{"a":1},'.repeat(ENTRIES_MAX / 2 - 2_000)}0]`,
};

let notesMade = 0;

/** A note of maximum length that differs from all before. The service does not record a repeated note within a minute. */
export function newNote(filling: string): string {
  notesMade += 1;
  const mark = String(notesMade).padStart(9, '0');
  return mark + filling.repeat(NOTE_MAX - mark.length);
}

/** Dispositions of the maximum number of line items, each with a note of maximum length. */
function notedLines(lineItems: readonly number[]) {
  return lineItems.slice(0, 30).map((line_item_id) => ({ line_item_id, note: newNote('x') }));
}

/** The most expensive valid request of each operation, without filling. */
export function costlyRequests(shop: StackShop): Record<OperationId, () => Sent> {
  const { returns, destinations, line_items } = shop.fixtures;
  const open = returns.open?.[0]?.id ?? 0;
  const address = Object.fromEntries(
    ['line1', 'line2', 'city', 'state', 'zip'].map((name) => [name, 'x'.repeat(255)]),
  );
  return {
    ...costlyWebhookRequests(shop),
    assessDispositions: () => ({
      path: at('/dispositioning/assess'),
      json: { items: notedLines(line_items) },
    }),
    gradeItems: () => ({
      path: at('/dispositioning/grade'),
      json: {
        items: notedLines(line_items).map((line) => {
          return { ...line, category: 'grade_b', description: newNote('y') };
        }),
      },
    }),
    listDestinations: () => ({ path: at('/destinations') }),
    getDestination: () => ({ path: at(`/destinations/${destinations.linked}`) }),
    updateDestination: () => ({
      method: 'PUT',
      path: at(`/destinations/${destinations.linked}`),
      json: { name: 'x'.repeat(191), address },
    }),
    listReturns: () => ({
      path: at('/warehouse/returns?limit=100&archived=include&sort=updated_at&query=a'),
    }),
    getReturnDetails: () => ({ path: at(`/warehouse/return/details?return_id=${open}`) }),
    createFraudReport: () => ({
      path: at(`/returns/${returns.fraud_reported?.[0]?.id}/fraud-report`),
      json: { category: 'other', comment: 'x'.repeat(512) },
    }),
    listEffects: () => ({ path: at(`/returns/${returns.closed?.[0]?.id}/effects`) }),
    recordLabel: () => ({
      path: at(`/returns/${returns.closed?.[0]?.id}/labels`),
      json: {
        carrier: 'x'.repeat(191),
        tracking_number: 'x'.repeat(191),
        url: 'x'.repeat(2_048),
        line_item_ids: Array.from({ length: 250 }, (_, n) => n + 1),
      },
    }),
    recordGiftCard: () => ({
      path: at(`/returns/${returns.closed?.[0]?.id}/gift-card`),
      json: { order_id: 7, order_name: 'x'.repeat(191), amount: '8.00', currency: 'GBP' },
    }),
    updateLabel: () => ({
      method: 'PUT',
      path: at('/labels/987654321'),
      json: { status: 'in_transit', occurred_at: '2026-11-20T10:00:00Z' },
    }),
    processReturn: () => ({
      path: at(`/warehouse/return/${returns.closed?.[0]?.id}/process`),
      json: Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`k${n}`, 'x'.repeat(300)])),
    }),
    getCart: () => ({ path: at(`/cart/${'n'.repeat(8_000)}`) }),
    createCart: () => ({
      path: at('/cart'),
      json: {
        cart: Array.from({ length: 500 }, (_, n) => ({ variant_id: n + 1, x: 'x'.repeat(1_900) })),
      },
    }),
  };
}

/** The most expensive arguments of each tool. */
export function costlyArguments(shop: StackShop): Record<ActionName, object> {
  const { returns, destinations, webhooks, line_items } = shop.fixtures;
  const return_id = returns.open?.[0]?.id;
  const closed = { return_id: returns.closed?.[0]?.id };
  const webhook_id = webhooks[0]?.id;
  const flag = {
    ...closed,
    reasons: Array.from({ length: FLAG_REASONS_MAX }, () => 'x'.repeat(SHORT_TEXT_MAX)),
    comment: 'x'.repeat(COMMENT_MAX),
  };
  return {
    get_shop_context: {},
    search_returns: { limit: 50, detail: 'full', include_archived: true, query: 'a' },
    get_return: { return_id, detail: 'full' },
    get_return_timeline: { return_id, limit: 50, detail: 'full' },
    get_returns_summary: {},
    process_return: closed,
    add_return_note: { return_id, text: 'x'.repeat(NOTE_MAX) },
    flag_return: flag,
    unflag_return: flag,
    cancel_return: { ...closed, reason: 'x'.repeat(COMMENT_MAX) },
    record_dispositions: { items: notedLines(line_items) },
    list_destinations: { limit: 50 },
    update_destination: { destination_id: destinations.linked, name: 'x'.repeat(191) },
    list_fraud_categories: {},
    create_fraud_report: {
      return_id: returns.fraud_reported?.[0]?.id,
      category: 'other',
      comment: 'x',
    },
    get_fraud_report: { return_id: returns.fraud_reported?.[0]?.id },
    create_cart: { items: Array.from({ length: 500 }, (_, n) => ({ variant_id: n + 1 })) },
    list_webhooks: { limit: 50, detail: 'full' },
    create_webhook: { topic: 'return', trigger: 'return.closed', url: 'https://10.0.0.1/' },
    update_webhook: { webhook_id, status: 'inactive' },
    test_webhook: { webhook_id, trigger: 'return.closed' },
    rotate_webhook_secret: { webhook_id, overlap_hours: 168 },
    list_webhook_deliveries: { limit: 50, detail: 'full' },
    replay_webhook_delivery: { webhook_id, delivery_id: MISSING_DELIVERY },
    preview_webhook_replay: { return_id, from: '2026-01-01T00:00:00Z' },
    start_webhook_replay: { return_id, from: '2026-01-01T00:00:00Z' },
    list_webhook_replays: { limit: 50 },
    cancel_webhook_replay: { replay_id: 987_654_321 },
    list_assistants: {},
    disconnect_assistant: { assistant_id: 'none' },
  };
}

/** The most expensive parameters of each method. */
export const COSTLY_PARAMETERS: Readonly<Record<string, object>> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'x', version: '1' },
  },
  'prompts/get': { name: 'triage_todays_returns' },
  'resources/read': { uri: 'rms://vocabulary' },
};

/** Additional values that make a message as expensive to parse as the limits allow. */
export const MESSAGE_FILLINGS: Readonly<Record<string, object>> = {
  'nothing else': {},
  'a text of 8 MB': { x: 'x'.repeat(8_000_000) },
  'as many numbers as a message may have': { x: Array.from({ length: 9_900 }, () => 1.5) },
  'as many objects as a message may have': { x: Array.from({ length: 4_900 }, () => ({ a: 1 })) },
};
