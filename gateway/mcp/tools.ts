import type { ActionName } from '../actions/permissions.ts';
import type { Tool } from './tool.ts';
import { addReturnNote } from './tools/add-return-note.ts';
import { cancelReturn } from './tools/cancel-return.ts';
import { cancelWebhookReplay } from './tools/cancel-webhook-replay.ts';
import { createCart } from './tools/create-cart.ts';
import { createFraudReport } from './tools/create-fraud-report.ts';
import { createWebhook } from './tools/create-webhook.ts';
import { disconnectAssistant } from './tools/disconnect-assistant.ts';
import { flagReturn } from './tools/flag-return.ts';
import { getFraudReport } from './tools/get-fraud-report.ts';
import { getReturn } from './tools/get-return.ts';
import { getReturnTimeline } from './tools/get-return-timeline.ts';
import { getReturnsSummary } from './tools/get-returns-summary.ts';
import { getShopContext } from './tools/get-shop-context.ts';
import { listAssistants } from './tools/list-assistants.ts';
import { listDestinations } from './tools/list-destinations.ts';
import { listFraudCategories } from './tools/list-fraud-categories.ts';
import { listWebhookDeliveries } from './tools/list-webhook-deliveries.ts';
import { listWebhookReplays } from './tools/list-webhook-replays.ts';
import { listWebhooks } from './tools/list-webhooks.ts';
import { previewWebhookReplay } from './tools/preview-webhook-replay.ts';
import { processReturn } from './tools/process-return.ts';
import { recordDispositions } from './tools/record-dispositions.ts';
import { replayWebhookDelivery } from './tools/replay-webhook-delivery.ts';
import { rotateWebhookSecret } from './tools/rotate-webhook-secret.ts';
import { searchReturns } from './tools/search-returns.ts';
import { startWebhookReplay } from './tools/start-webhook-replay.ts';
import { testWebhook } from './tools/test-webhook.ts';
import { unflagReturn } from './tools/unflag-return.ts';
import { updateDestination } from './tools/update-destination.ts';
import { updateWebhook } from './tools/update-webhook.ts';

/** Every tool by name. There is one tool for each action in `gateway/actions/permissions.ts`. */
export const TOOLS: { readonly [K in ActionName]: Tool } = {
  get_shop_context: getShopContext,
  search_returns: searchReturns,
  get_return: getReturn,
  get_return_timeline: getReturnTimeline,
  get_returns_summary: getReturnsSummary,
  process_return: processReturn,
  add_return_note: addReturnNote,
  flag_return: flagReturn,
  unflag_return: unflagReturn,
  cancel_return: cancelReturn,
  record_dispositions: recordDispositions,
  list_destinations: listDestinations,
  update_destination: updateDestination,
  list_fraud_categories: listFraudCategories,
  create_fraud_report: createFraudReport,
  get_fraud_report: getFraudReport,
  create_cart: createCart,
  list_webhooks: listWebhooks,
  create_webhook: createWebhook,
  update_webhook: updateWebhook,
  test_webhook: testWebhook,
  rotate_webhook_secret: rotateWebhookSecret,
  list_webhook_deliveries: listWebhookDeliveries,
  replay_webhook_delivery: replayWebhookDelivery,
  preview_webhook_replay: previewWebhookReplay,
  start_webhook_replay: startWebhookReplay,
  list_webhook_replays: listWebhookReplays,
  cancel_webhook_replay: cancelWebhookReplay,
  list_assistants: listAssistants,
  disconnect_assistant: disconnectAssistant,
};

/** Tool names of earlier releases. Calls with them still work, but lists do not show them. */
const FORMER_NAMES: ReadonlyMap<string, ActionName> = new Map([
  ['list_connected_assistants', 'list_assistants'],
]);

/** The tool with this name, or with this former name; undefined when it does not exist. */
export function toolNamed(name: string): Tool | undefined {
  const current = FORMER_NAMES.get(name) ?? name;
  return Object.hasOwn(TOOLS, current) ? TOOLS[current as ActionName] : undefined;
}
