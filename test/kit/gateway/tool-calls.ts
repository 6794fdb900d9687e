import type { ActionName } from '../../../gateway/actions/permissions.ts';
import { FAKE } from './fake-objects.ts';

const returnId = Number(FAKE.returns.open);
const webhookId = Number(FAKE.webhook);

/** An unused grant in the first shop. Users with `team.manage` may revoke it any number of times. */
export const SPARE_GRANT = 'spare-grant-of-the-bench';

/** Arguments of a successful call with the fake services, by tool. */
export const GOOD_CALLS: Readonly<Record<ActionName, Readonly<Record<string, unknown>>>> = {
  get_shop_context: {},
  search_returns: { query: '#1001', states: ['open', 'review'], detail: 'full' },
  get_return: { return_id: returnId },
  get_return_timeline: { return_id: returnId, detail: 'full' },
  get_returns_summary: { created_from: '2026-11-01T00:00:00Z', created_to: '2026-11-20T00:00:00Z' },
  process_return: { return_id: returnId, details: { note: 'Careful', rank: 1.5, ok: true } },
  add_return_note: { return_id: returnId, text: 'Called the shopper' },
  flag_return: { return_id: returnId, reasons: ['Odd'] },
  unflag_return: { return_id: returnId },
  cancel_return: { return_id: returnId, reason: 'Asked for' },
  record_dispositions: {
    items: [
      {
        line_item_id: Number(FAKE.lineItem),
        disposition_outcome: 'donate',
        inspected_at: '2026-11-20T10:00:00Z',
      },
    ],
  },
  list_destinations: { detail: 'full' },
  update_destination: {
    destination_id: Number(FAKE.destination),
    name: 'Leeds 2',
    address: { city: 'Leeds', country_code: 'gb' },
  },
  list_fraud_categories: {},
  create_fraud_report: { return_id: returnId, category: 'item-is-worn' },
  get_fraud_report: { return_id: Number(FAKE.returns.reported) },
  create_cart: { items: [{ variant_id: 5, quantity: 2 }, { variant_id: 6 }] },
  list_webhooks: { detail: 'full' },
  create_webhook: {
    topic: 'return',
    trigger: 'return.closed',
    url: 'https://hooks.example.com/new',
  },
  update_webhook: { webhook_id: webhookId, status: 'inactive' },
  test_webhook: { webhook_id: webhookId, trigger: 'return.created' },
  rotate_webhook_secret: { webhook_id: webhookId, overlap_hours: 48 },
  list_webhook_deliveries: { webhook_id: webhookId, detail: 'full', state: 'delivered' },
  replay_webhook_delivery: { delivery_id: FAKE.delivery },
  preview_webhook_replay: { webhook_id: webhookId, from: '2026-11-20T10:00:00Z' },
  start_webhook_replay: { states: ['exhausted'], from: '2026-11-20T10:00:00Z' },
  list_webhook_replays: { replay_id: Number(FAKE.replay) },
  cancel_webhook_replay: { replay_id: Number(FAKE.replay) },
  list_assistants: { limit: 5 },
  disconnect_assistant: { assistant_id: SPARE_GRANT },
};
