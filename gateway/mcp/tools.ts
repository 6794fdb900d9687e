import type { Tool } from './tool.ts';
import { listExpectedArrivals } from './tools/arrivals.ts';
import {
  addReturnNote,
  cancelReturn,
  flagReturn,
  processReturn,
  recordDispositions,
  unflagReturn,
} from './tools/change-returns.ts';
import { createFraudReport, getFraudReport, listFraudCategories } from './tools/fraud-reports.ts';
import {
  getReturn,
  getReturnPolicy,
  getReturnsSummary,
  getReturnTimeline,
  searchReturns,
} from './tools/read-returns.ts';
import {
  createCart,
  disconnectAssistant,
  getShopContext,
  listAssistants,
  listDestinations,
  updateDestination,
} from './tools/shop.ts';
import { checkEligibility, createReturn } from './tools/submissions.ts';
import {
  cancelWebhookReplay,
  listWebhookReplays,
  previewWebhookReplay,
  startWebhookReplay,
} from './tools/webhook-replays.ts';
import {
  createWebhook,
  listWebhookDeliveries,
  listWebhooks,
  replayWebhookDelivery,
  rotateWebhookSecret,
  testWebhook,
  updateWebhook,
} from './tools/webhooks.ts';

/** Every tool, in the order in which assistants see them. */
export const TOOLS: readonly Tool[] = [
  getShopContext,
  searchReturns,
  getReturn,
  getReturnTimeline,
  getReturnsSummary,
  getReturnPolicy,
  checkEligibility,
  createReturn,
  processReturn,
  addReturnNote,
  flagReturn,
  unflagReturn,
  cancelReturn,
  listExpectedArrivals,
  recordDispositions,
  listDestinations,
  updateDestination,
  listFraudCategories,
  createFraudReport,
  getFraudReport,
  createCart,
  listWebhooks,
  createWebhook,
  updateWebhook,
  testWebhook,
  rotateWebhookSecret,
  listWebhookDeliveries,
  replayWebhookDelivery,
  previewWebhookReplay,
  startWebhookReplay,
  listWebhookReplays,
  cancelWebhookReplay,
  listAssistants,
  disconnectAssistant,
];

const BY_NAME: ReadonlyMap<string, Tool> = new Map(TOOLS.map((tool) => [tool.name, tool]));

/** The tool with this name; undefined when it does not exist. */
export function toolNamed(name: string): Tool | undefined {
  return BY_NAME.get(name);
}
