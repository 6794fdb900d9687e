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

/**
 * Texts after the words of an action of the API or of an assistant, when an action of the portal has the same words.
 */
const DOOR_TEXTS: ReadonlyMap<string | undefined, string> = new Map([
  ['rest', ' (API)'],
  ['mcp', ' (assistant)'],
]);

const WORDS: ReadonlyMap<string, string> = new Map([
  ...PORTAL_METHODS.flatMap(({ audit }) => (audit ? [audit] : [])),
  ...Object.entries(GATEWAY_ACTIONS),
  ...OPERATIONS.map(({ id, summary }) => [`rest.${id}`, summary] as const),
  ...TOOLS.map(({ name, title }) => [`mcp.${name}`, title] as const),
]);

/** What a log can be filtered by: each action that is recorded, with its words, in the order of the words. */
export const ACTION_CHOICES: readonly (readonly [string, string])[] = [...WORDS]
  .filter(([action]) => !READS.has(action))
  .map(
    ([action, words]) => [action, `${words}${DOOR_TEXTS.get(action.split('.')[0]) ?? ''}`] as const,
  )
  .sort(([, one], [, other]) => one.localeCompare(other, 'en'));

/** An action in words, such as `Change a webhook`. An action without words is shown by its name. */
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
    /^portal\.(?:sign_out|switch_shop|set_payload|update_settings|\w+_commerce|create_shopify)|^payload_version|^shop\.|^commerce\.(?!effect)/,
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
  [/invitation/, 'invitation'],
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
