import { randomUUID } from 'node:crypto';
import type { SampleObjects } from '../../../gateway/mcp/tool.ts';
import { COMMENT_MAX, NOTE_MAX } from '../../../services/contract/limits.ts';
import type { OperationId } from '../../../services/contract/operation.ts';
import type { Sent } from '../gateway/rest-client.ts';
import { longText } from '../gateway/tool-calls.ts';
import { MISSING_DELIVERY } from '../journeys/expected-errors.ts';
import type { StackShop } from '../stack.ts';
import { at, costlyWebhookRequests } from './costly-webhook-requests.ts';

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

/** Dispositions of the maximum number of line items, each with a note of maximum length. */
function notedLines(lineItems: readonly number[]) {
  return lineItems.slice(0, 30).map((line_item_id) => ({ line_item_id, note: longText(NOTE_MAX) }));
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
          return { ...line, category: 'grade_b', description: longText(NOTE_MAX) };
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
    getPolicy: () => ({ path: at('/policy') }),
    listReturns: () => ({
      path: at('/warehouse/returns?limit=100&archived=include&sort=updated_at&query=a'),
    }),
    listExpected: () => ({ path: at('/warehouse/expected?limit=100') }),
    recordArrival: () => ({
      path: at('/warehouse/arrivals'),
      headers: { 'Idempotency-Key': randomUUID() },
      json: {
        return_id: open,
        unexpected: Array.from({ length: 250 }, () => ({ quantity: 1, note: 'x'.repeat(2_000) })),
      },
    }),
    getReturnDetails: () => ({ path: at(`/warehouse/return/details?return_id=${open}`) }),
    getEligibility: () => ({
      path: at(`/orders/eligibility?order_name=${'n'.repeat(191)}&email=${'x'.repeat(320)}`),
    }),
    submitReturn: () => ({
      path: at('/returns'),
      headers: { 'idempotency-key': randomUUID() },
      json: {
        order_name: '#T10',
        items: Array.from({ length: 250 }, (_, n) => ({
          provider_line_item_id: n + 1,
          quantity: 1,
          comment: 'x'.repeat(2_000),
        })),
      },
    }),
    createFraudReport: () => ({
      path: at(`/returns/${returns.fraud_reported?.[0]?.id}/fraud-report`),
      json: { category: 'other', comment: 'x'.repeat(512) },
    }),
    listEffects: () => ({ path: at(`/returns/${returns.closed?.[0]?.id}/effects`) }),
    cancelReturn: () => ({
      path: at(`/returns/${returns.closed?.[0]?.id}/cancel`),
      json: { reason: longText(COMMENT_MAX) },
    }),
    getReturnTimeline: () => ({
      path: at(`/returns/${returns.closed?.[0]?.id}/timeline?limit=100`),
    }),
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

/** The objects of a stack for the most expensive call of each tool. */
export function costlyObjects({ fixtures }: StackShop): SampleObjects {
  const { returns, destinations, webhooks, line_items } = fixtures;
  return {
    openReturn: returns.open?.[0]?.id ?? 0,
    flaggedReturn: returns.flagged?.[0]?.id ?? 0,
    closedReturn: returns.closed?.[0]?.id ?? 0,
    reportedReturn: returns.fraud_reported?.[0]?.id ?? 0,
    lineItems: line_items,
    destination: destinations.linked,
    webhook: webhooks[0]?.id ?? 0,
    delivery: MISSING_DELIVERY,
    replay: 987_654_321,
    assistant: 'none',
    longText,
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
