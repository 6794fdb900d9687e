import { OPERATIONS } from '../../../services/contract/operations.ts';
import { TOOLS } from '../../mcp/tools.ts';
import { isAudited } from '../../rest/audited.ts';
import { PORTAL_METHODS } from '../methods.ts';

/** Changes of the gateway's own data. The portal, the API, assistants and commands can all make them. */
const GATEWAY_ACTIONS = {
  'api_key.approved': 'API key approved',
  'api_key.created': 'API key created',
  'api_key.rejected': 'API key rejected',
  'api_key.requested': 'API key requested: waits for an owner',
  'api_key.rotated': 'API key rotated',
  'api_key.revoked': 'API key revoked',
  'app.access_ended': 'Access of a partner app ended',
  'app.allowed': 'Partner app connected again',
  'app.installed': 'Partner app installed',
  'app.removed': 'Partner app removed',
  'app.scopes_allowed': 'Scopes of a partner app allowed',
  'assistant.connected': 'Assistant connected',
  'assistant.disconnected': 'Assistant disconnected',
  'commerce.connected': 'Commerce provider connected',
  'commerce.disconnected': 'Commerce provider disconnected',
  'commerce.effect.settled': 'Result of a refund, gift card or order recorded by hand',
  'commerce.secret.rotated': 'Secret of the commerce provider rotated',
  'commerce.shopify.connected': 'Shopify store connected',
  'commerce.shopify.link_created': 'Link for the Shopify install created',
  'destination.created': 'Destination added',
  'invitation.accepted': 'Invitation accepted',
  'invitation.resent': 'Invitation sent again',
  'invitation.sent': 'Person invited',
  'invitation.withdrawn': 'Invitation withdrawn',
  'member.access_ended': 'Access of a member ended',
  'member.account_linked': 'Member signed in for the first time',
  'member.account_unlinked': 'Sign-in of a member unlinked',
  'member.added': 'Member added',
  'member.address_changed': 'E-mail address of a member changed',
  'member.removed': 'Member removed',
  'member.role_changed': 'Role of a member changed',
  'payload_version.set': 'Payload version changed',
  'session.ended': 'Session ended',
  'session.started': 'Signed in to the portal',
  'shop.created': 'Shop created',
  'shop.restock.set': 'Restocking changed',
  'shop.sandbox.set': 'Sandbox switched',
  'webhook.retried': 'Waiting deliveries sent at once',
} as const;

/** Operations and tools that only read, which have no entries. */
const READS: ReadonlySet<string> = new Set([
  ...OPERATIONS.filter((operation) => !isAudited(operation)).map(({ id }) => `rest.${id}`),
  ...TOOLS.filter(({ hints }) => hints.readOnly.is).map(({ name }) => `mcp.${name}`),
]);

const WORDS: ReadonlyMap<string, string> = new Map([
  ...PORTAL_METHODS.flatMap(({ audit }) => (audit ? [audit] : [])),
  ...Object.entries(GATEWAY_ACTIONS),
  ...OPERATIONS.map(({ id, summary }) => [`rest.${id}`, summary] as const),
  ...TOOLS.map(({ name, title }) => [`mcp.${name}`, title] as const),
]);

/** The acts whose name does not follow from the name of the action: see {@link actOf}. */
const ACTS: Readonly<Record<string, string>> = {
  'api_key.approved': 'approve_api_key',
  'api_key.created': 'create_api_key',
  'api_key.rejected': 'reject_api_key',
  'api_key.revoked': 'revoke_api_key',
  'api_key.rotated': 'rotate_api_key',
  'app.removed': 'remove_app',
  'app.scopes_allowed': 'allow_app_scopes',
  'assistant.disconnected': 'disconnect_assistant',
  'commerce.connected': 'connect_commerce',
  'commerce.disconnected': 'disconnect_commerce',
  'commerce.secret.rotated': 'rotate_commerce_secret',
  'commerce.shopify.link_created': 'create_shopify_link',
  'destination.created': 'create_destination',
  'invitation.resent': 'resend_invitation',
  'invitation.sent': 'send_invitation',
  'invitation.withdrawn': 'withdraw_invitation',
  'mcp.cancel_webhook_replay': 'stop_replay',
  'mcp.create_return': 'submit_return',
  'mcp.start_webhook_replay': 'start_replay',
  'mcp.test_webhook': 'send_test_webhook',
  'member.access_ended': 'end_member_access',
  'member.removed': 'remove_member',
  'member.role_changed': 'change_role',
  'payload_version.set': 'set_payload_version',
  'rest.assessDispositions': 'record_dispositions',
  'rest.cancelReplay': 'stop_replay',
  'rest.endEarlierSecrets': 'end_earlier_webhook_secrets',
  'rest.getWebhookSecret': 'reveal_webhook_secret',
  'rest.replayDelivery': 'replay_webhook_delivery',
  'rest.retryDeliveries': 'retry_webhook_deliveries',
  'rest.testWebhook': 'send_test_webhook',
  'session.ended': 'end_session',
  'shop.restock.set': 'update_settings',
  'webhook.retried': 'retry_webhook_deliveries',
};

/**
 * The one name of what an action does. A stored action begins with its door: `portal.process_return`,
 * `rest.processReturn` and `mcp.process_return` are the act `process_return`, and so is the entry that is written with a
 * change.
 */
export function actOf(action: string): string {
  const [, name] = /^(?:portal|rest|mcp)\.(.+)$/.exec(action) ?? [];
  const ownName = name?.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return ACTS[action] ?? ownName ?? action;
}

const ACTIONS_OF: ReadonlyMap<string, readonly string[]> = Map.groupBy(
  [...WORDS.keys()].filter((action) => !READS.has(action)),
  actOf,
);

/** The stored actions of an act; undefined when there is no such act. */
export function actionsOf(act: string): readonly string[] | undefined {
  return ACTIONS_OF.get(act);
}

/** The words of an act, such as `Change a webhook`, whatever the door. An action without words is shown by its name. */
export function actionWords(action: string): string {
  const words = WORDS.get(ACTIONS_OF.get(actOf(action))?.[0] ?? action);
  if (words !== undefined) return words;
  const name = action.replaceAll(/[._]/g, ' ');
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** The actions whose words, or those of their act, contain a text. */
export function actionsNamed(text: string): string[] {
  const wanted = text.toLowerCase();
  return [...WORDS]
    .filter(([action, words]) => `${words}\n${actionWords(action)}`.toLowerCase().includes(wanted))
    .map(([action]) => action);
}

/** The kinds of objects, by the names of the actions about them. The first that fits counts. */
const KINDS: readonly (readonly [RegExp, string])[] = [
  [
    /^portal\.(?:sign_out|switch_shop|set_payload|update_settings|\w+_commerce|create_shopify)|^payload_version|^shop\.|^commerce\.(?!effect)/,
    '',
  ],
  [/session/i, 'session'],
  [/^portal\.(?:grade_items|record_dispositions)/, 'return'],
  [/backfill/i, 'webhook'],
  [/delivery/i, 'delivery'],
  [/replay/i, 'replay'],
  [/webhook|secret|version_test|retryDeliveries/i, 'webhook'],
  [/destination/i, 'destination'],
  [/api_key/, 'key'],
  [/invitation/, 'invitation'],
  [/member|change_role/, 'member'],
  [/assistant/, 'assistant'],
  [/app\b|app_scopes/, 'app'],
  [/cart/i, 'cart'],
  [/updateLabel/, 'label'],
  [/disposition|grade/i, 'line items'],
  [/return|fraud|label|giftcard|effect|arrival/i, 'return'],
];

/**
 * What an action is about, for a filter: as {@link objectKind}, but parts of a return count as the return, and what has
 * no object of its own is about the shop.
 */
function thingOf(action: string): string {
  const kind = objectKind(action);
  if (kind === 'line items' || kind === 'label') return 'return';
  return kind || (/sign_out|switch_shop/.test(action) ? 'session' : 'shop');
}

/** The stored actions about a thing, such as `webhook`. */
export function actionsAboutThing(thing: string): string[] {
  return [...WORDS.keys()].filter((action) => thingOf(action) === thing);
}

/** The actions about a kind of object, such as `return`. */
export function actionsAbout(kind: string): string[] {
  return [...WORDS.keys()].filter((action) => objectKind(action) === kind);
}

/** What the object of an action is, such as `webhook`; empty for none. */
export function objectKind(action: string): string {
  return KINDS.find(([form]) => form.test(action))?.[1] ?? '';
}

/** What a log can be filtered by: each act with its words and its thing, in the order of the words. */
export const ACT_CHOICES = [...ACTIONS_OF]
  .map(([name, [action = '']]) => ({ name, words: actionWords(action), thing: thingOf(action) }))
  .sort((one, other) => one.words.localeCompare(other.words, 'en'));
