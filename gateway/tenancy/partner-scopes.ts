import { PARTNER_SCOPES } from '../../services/contract/operations.ts';
import type { Scope } from '../../services/contract/scopes.ts';
import { type Permission, permits, type Role } from './permissions.ts';

/**
 * The permission that a member needs to connect a partner's app to a shop. The app works only while the member has it.
 */
const CONNECT_APPS: Permission = 'developer.manage';

/** Whether members with this role may connect partners' apps to the shop. */
export function mayConnectApps(role: Role): boolean {
  return permits(role, [CONNECT_APPS]);
}

export function isPartnerScope(text: string): text is Scope {
  return PARTNER_SCOPES.some((scope) => scope === text);
}
