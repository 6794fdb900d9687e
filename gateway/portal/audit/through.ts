import type { LoggedEntry } from '../../tenancy/audit-list.ts';
import type { AuditNames } from '../../tenancy/audit-names.ts';

/**
 * Through what an action was done, for entries that are written together with their change. Used when the log has no
 * entry of the call itself.
 */
const WAY_OF: Readonly<Record<string, (entry: LoggedEntry) => string>> = {
  'assistant.connected': assistant,
  'assistant.disconnected': (entry) =>
    entry.detail.why === 'token_revoked' ? assistant(entry) : 'Portal',
  'app.installed': () => 'Sign-in page',
  'member.account_linked': () => 'Sign-in page',
  'commerce.shopify.connected': () => 'Shopify',
};

/**
 * Through what something was done, for people: the portal, the API with the name of the key or app, an assistant with
 * its name, a page, or a command of the operator.
 *
 * @param o.entries of the page: an entry that was written with its change does not say its way, but the entry of the
 *   call with the same request does.
 */
export function throughOf(
  entry: LoggedEntry,
  o: { readonly entries: readonly LoggedEntry[]; readonly names: AuditNames },
): string {
  const { action, requestId } = entry;
  const own = doorOf(entry, o.names);
  if (own !== undefined) return own;
  if (requestId === null) return 'Command';
  const call = o.entries.find(
    (other) => other.requestId === requestId && doorOf(other, o.names) !== undefined,
  );
  return (call && doorOf(call, o.names)) ?? WAY_OF[action]?.(entry) ?? 'Portal';
}

function doorOf(entry: LoggedEntry, { keys }: AuditNames): string | undefined {
  const { action, actorKind, actorId, actorName } = entry;
  if (action.startsWith('portal.')) return 'Portal';
  if (action.startsWith('mcp.')) return assistant(entry);
  if (!action.startsWith('rest.')) return undefined;
  if (actorKind === 'partner_app') return `Partner app ${actorId}`;
  return `API key ${actorName || keys.get(actorId) || actorId}`;
}

/** An assistant is named after the app that its user signed in to. Entries of former releases have only its client id. */
function assistant({ detail: { app, client_id: clientId } }: LoggedEntry): string {
  const name = [app, clientId].find((text) => typeof text === 'string' && text !== '');
  return name === undefined ? 'Assistant' : `Assistant ${name}`;
}
