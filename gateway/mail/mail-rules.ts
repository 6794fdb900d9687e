import { type Permission, permits, ROLES, type Role } from '../tenancy/permissions.ts';
import type { FactKind } from './facts.ts';

interface Rule {
  /** The roles whose members get the mail. */
  readonly roles: readonly Role[];
  /** Whether its subject has at most one mail a day. A mail without this limit still counts as the one of the day. */
  readonly isDaily: boolean;
}

const DEVELOPERS = rolesWith(['developer.view', 'developer.manage']);
const OWNERS: readonly Role[] = ['owner'];

/** Who gets a mail about a fact, and how often. */
export const RULES: Readonly<Record<FactKind, Rule>> = {
  endpoint_failing: { roles: DEVELOPERS, isDaily: true },
  endpoint_disabled: { roles: DEVELOPERS, isDaily: false },
  endpoint_exhausted: { roles: DEVELOPERS, isDaily: true },
  secret_revealed: { roles: OWNERS, isDaily: true },
  assistant_connected: { roles: OWNERS, isDaily: true },
};

/** Maximum number of facts in one mail: as many as a shop has subscriptions. Further facts are left out. */
export const MAX_FACTS = 100;

function rolesWith(anyOf: readonly Permission[]): Role[] {
  return ROLES.filter((role) => permits(role, anyOf));
}
