import { OPERATIONS } from '../../services/contract/operations.ts';
import type { Scope } from '../../services/contract/scopes.ts';
import { ROLE_TABLE } from './role-table.ts';

/** What an API key with this scope may do, in the words of the table of roles: a sentence for each of its rows. */
export function scopeText(scope: Scope): string {
  const ids = new Set(OPERATIONS.filter((one) => one.scope === scope).map(({ id }) => id));
  const rows = ROLE_TABLE.filter(({ rest = [] }) => rest.some((id) => ids.has(id)));
  return rows.map(({ description }) => `${description}.`).join(' ');
}
