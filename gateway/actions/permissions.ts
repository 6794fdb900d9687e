import type { Permission } from '../tenancy/permissions.ts';

/**
 * The permissions for each action in a shop. One of the listed permissions is enough; an empty list means that no
 * permission is needed. `tenancy/permissions.ts` has the permissions of each role. The MCP server hides the tools that
 * a user may not use, and rejects calls of them. CONTRIBUTING.md says how to add a tool.
 */
export const ACTION_PERMISSIONS = {
  get_shop_context: [],
  search_returns: ['returns.view', 'returns.manage'],
  get_return: ['returns.view', 'returns.manage'],
  get_return_timeline: ['returns.view', 'returns.manage'],
  get_returns_summary: ['reports.view', 'returns.manage'],
  process_return: ['returns.process', 'returns.manage'],
  add_return_note: ['returns.manage'],
  flag_return: ['returns.manage'],
  unflag_return: ['returns.manage'],
  cancel_return: ['returns.manage'],
  record_dispositions: ['warehouse.disposition', 'returns.manage'],
  list_destinations: ['destinations.view', 'destinations.manage'],
  update_destination: ['destinations.manage'],
  list_fraud_categories: ['fraud.report', 'returns.manage'],
  create_fraud_report: ['fraud.report', 'returns.manage'],
  get_fraud_report: ['fraud.view', 'returns.manage'],
  create_cart: ['carts.create'],
  list_webhooks: ['developer.view', 'developer.manage'],
  create_webhook: ['developer.manage'],
  update_webhook: ['developer.manage'],
  test_webhook: ['developer.manage'],
  rotate_webhook_secret: ['developer.manage'],
  list_webhook_deliveries: ['developer.manage'],
  replay_webhook_delivery: ['developer.manage'],
  preview_webhook_replay: ['developer.view', 'developer.manage'],
  start_webhook_replay: ['developer.manage'],
  list_webhook_replays: ['developer.view', 'developer.manage'],
  cancel_webhook_replay: ['developer.manage'],
  // Without `team.manage`, both actions are about the user's own assistants only.
  list_assistants: [],
  disconnect_assistant: [],
} as const satisfies Readonly<Record<string, readonly Permission[]>>;

export type ActionName = keyof typeof ACTION_PERMISSIONS;

/** The permissions of an action; a user needs one of them. Empty when every signed-in user may do it. */
export function permissionsFor(action: ActionName): readonly Permission[] {
  return ACTION_PERMISSIONS[action];
}
