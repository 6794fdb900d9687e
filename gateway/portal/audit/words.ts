import { OPERATIONS } from '../../../services/contract/operations.ts';
import { TOOLS } from '../../mcp/tools.ts';
import { isAudited } from '../../rest/audited.ts';

/** What people did in the portal: the names of the proto option `audit`. A test checks that none is missing. */
const PORTAL = {
  switch_shop: 'Switch to another shop',
  end_session: 'End a session',
  sign_out: 'Sign out',
  sign_out_everywhere: 'Sign out everywhere',
  create_webhook: 'Add a webhook',
  update_webhook: 'Change a webhook',
  delete_webhook: 'Delete a webhook',
  reveal_webhook_secret: 'Show the signing secret of a webhook',
  rotate_webhook_secret: 'Rotate the signing secret of a webhook',
  end_earlier_webhook_secrets: 'End the earlier signing secrets of a webhook',
  send_test_webhook: 'Send a test event',
  replay_webhook_delivery: 'Send a delivery again',
  start_replay: 'Send deliveries again',
  start_backfill: 'Send stored events',
  stop_replay: 'Stop sending again',
  retry_webhook_deliveries: 'Send waiting deliveries at once',
  set_payload_version: 'Change the payload version',
  send_version_test: 'Send a test event in another version',
  process_return: 'Process a return',
  flag_return: 'Put a return into review',
  unflag_return: 'End the review of a return',
  cancel_return: 'Cancel a return',
  add_return_note: 'Add a note to a return',
  create_fraud_report: 'Report a return as fraud',
  grade_items: 'Record the condition of items',
  record_dispositions: 'Record what becomes of items',
  create_destination: 'Add a destination',
  update_destination: 'Change a destination',
  create_api_key: 'Create an API key',
  rotate_api_key: 'Rotate an API key',
  revoke_api_key: 'Revoke an API key',
  remove_app: 'Remove a partner app',
  disconnect_assistant: 'Disconnect an assistant',
  add_member: 'Add a member',
  change_role: 'Change the role of a member',
  remove_member: 'Remove a member',
  export_audit_log: 'Export the audit log',
} as const;

/** Changes of the gateway's own data. The portal, the API, assistants and commands can all make them. */
const GATEWAY_ACTIONS = {
  'api_key.created': 'API key created',
  'api_key.rotated': 'API key rotated',
  'api_key.revoked': 'API key revoked',
  'app.installed': 'Partner app installed',
  'app.removed': 'Partner app removed',
  'assistant.connected': 'Assistant connected',
  'assistant.disconnected': 'Assistant disconnected',
  'commerce.connected': 'Commerce provider connected',
  'commerce.disconnected': 'Commerce provider disconnected',
  'commerce.effect.settled': 'Result of a refund, gift card or order recorded by hand',
  'commerce.secret.rotated': 'Secret of the commerce provider rotated',
  'commerce.shopify.connected': 'Shopify store connected',
  'commerce.shopify.link_created': 'Link for the Shopify install created',
  'destination.created': 'Destination added',
  'member.account_linked': 'Member signed in for the first time',
  'member.account_unlinked': 'Sign-in of a member unlinked',
  'member.added': 'Member added',
  'member.address_changed': 'E-mail address of a member changed',
  'member.removed': 'Member removed',
  'member.role_changed': 'Role of a member changed',
  'payload_version.set': 'Payload version changed',
  'shop.created': 'Shop created',
  'shop.restock.set': 'Restocking changed',
  'shop.sandbox.set': 'Sandbox switched',
} as const;

/** Operations and tools that only read, which have no entries. */
const READS: ReadonlySet<string> = new Set([
  ...OPERATIONS.filter((operation) => !isAudited(operation)).map(({ id }) => `rest.${id}`),
  ...Object.values(TOOLS)
    .filter(({ hints }) => hints.readOnly.is)
    .map(({ name }) => `mcp.${name}`),
]);

/**
 * Texts after the words of an action of the API or of an assistant, when an action of the portal has the same words.
 */
const DOOR_TEXTS: ReadonlyMap<string | undefined, string> = new Map([
  ['rest', ' (API)'],
  ['mcp', ' (assistant)'],
]);

const WORDS: ReadonlyMap<string, string> = new Map([
  ...Object.entries(PORTAL).map(([name, words]) => [`portal.${name}`, words] as const),
  ...Object.entries(GATEWAY_ACTIONS),
  ...OPERATIONS.map(({ id, summary }) => [`rest.${id}`, summary] as const),
  ...Object.values(TOOLS).map(({ name, title }) => [`mcp.${name}`, title] as const),
]);

/** What a log can be filtered by: each action that is recorded, with its words, in the order of the words. */
export const ACTION_CHOICES: readonly (readonly [string, string])[] = [...WORDS]
  .filter(([action]) => !READS.has(action))
  .map(
    ([action, words]) => [action, `${words}${DOOR_TEXTS.get(action.split('.')[0]) ?? ''}`] as const,
  )
  .sort(([, one], [, other]) => one.localeCompare(other, 'en'));

/** An action in words, such as `Change a webhook`. An action of a former release is shown by its name. */
export function actionWords(action: string): string {
  const words = WORDS.get(action);
  if (words !== undefined) return words;
  const name = action.replaceAll(/[._]/g, ' ');
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** The actions whose words contain a text. */
export function actionsNamed(text: string): string[] {
  const wanted = text.toLowerCase();
  return [...WORDS]
    .filter(([, words]) => words.toLowerCase().includes(wanted))
    .map(([action]) => action);
}

/** The kinds of objects, by the names of the actions about them. The first that fits counts. */
const KINDS: readonly (readonly [RegExp, string])[] = [
  [
    /^portal\.(?:sign_out|switch_shop|set_payload)|^payload_version|^shop\.|^commerce\.(?!effect)/,
    '',
  ],
  [/session/i, 'session'],
  [/^portal\.(?:grade_items|record_dispositions)/, 'return'],
  [/backfill/i, 'webhook'],
  [/delivery/i, 'delivery'],
  [/replay/i, 'replay'],
  [/webhook|secret|version_test/i, 'webhook'],
  [/destination/i, 'destination'],
  [/api_key/, 'key'],
  [/member|change_role/, 'member'],
  [/assistant/, 'assistant'],
  [/app\b/, 'app'],
  [/updateLabel/, 'label'],
  [/disposition|grade/i, 'line items'],
  [/return|fraud|label|giftcard|effect/i, 'return'],
];

/** The actions about a kind of object, such as `return`. */
export function actionsAbout(kind: string): string[] {
  return [...WORDS.keys()].filter((action) => objectKind(action) === kind);
}

/** What the object of an action is, such as `webhook`; empty for none. */
export function objectKind(action: string): string {
  return KINDS.find(([form]) => form.test(action))?.[1] ?? '';
}
