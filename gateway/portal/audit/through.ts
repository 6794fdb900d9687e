import type { LoggedEntry } from '../../tenancy/audit-list.ts';
import type { ReadableEntry } from './entry.ts';

/** Through what an action was done that no assistant did, for entries that are written together with their change. */
const WAY_OF: Readonly<Record<string, (entry: LoggedEntry) => string>> = {
  'assistant.connected': assistant,
  'assistant.disconnected': (entry) =>
    entry.detail.why === 'token_revoked' ? assistant(entry) : 'Portal',
  'app.access_ended': ({ actorKind, actorId }) =>
    actorKind === 'partner_app' ? `Partner app ${actorId}` : 'Portal',
  'app.allowed': () => 'Sign-in page',
  'app.installed': () => 'Sign-in page',
  'invitation.accepted': () => 'Sign-in page',
  'member.account_linked': () => 'Sign-in page',
  'commerce.shopify.connected': () => 'Shopify',
};

/**
 * Through what something was done, for people: the portal, the API with the name of the key or app, an assistant with
 * its name, a page, a command of the operator, or the service itself.
 *
 * @param call the entry of the assistant's call that made the change, if an assistant did.
 */
export function throughOf(entry: ReadableEntry, call: LoggedEntry | undefined): string {
  const { action, actorKind, actorId, actorName, requestId } = entry;
  if (action.startsWith('portal.')) return 'Portal';
  if (action.startsWith('mcp.')) return assistant(entry);
  if (action.startsWith('rest.')) {
    return actorKind === 'partner_app'
      ? `Partner app ${actorId}`
      : `API key ${actorName || actorId}`;
  }
  if (call) return assistant(call);
  if (actorKind === 'service') return 'Service';
  if (requestId === null) return 'Command';
  return WAY_OF[action]?.(entry) ?? 'Portal';
}

/** An assistant is named after the app that its user signed in to. An entry without the app has only its client id. */
function assistant({ detail: { app, client_id: clientId } }: LoggedEntry): string {
  const name = [app, clientId].find((text) => typeof text === 'string' && text !== '');
  return name === undefined ? 'Assistant' : `Assistant ${name}`;
}
