import type { Permission, Role } from '../../tenancy/permissions.ts';

/** The names of roles on the pages. */
export const ROLE_NAMES: Readonly<Record<Role, string>> = {
  owner: 'Owner',
  admin: 'Admin',
  returns_agent: 'Returns agent',
  warehouse: 'Warehouse',
  analyst: 'Analyst',
  developer: 'Developer',
};

/** How the consent page describes each permission; empty for one that no tool of assistants uses. */
const RIGHTS: Readonly<Record<Permission, string>> = {
  'returns.view': 'see returns, their items and their customers',
  'returns.manage': 'add notes to returns, flag and unflag them, cancel them',
  'returns.process': 'process returns: refunds, exchanges and gift cards',
  'policy.manage': 'change what the shop takes back, and how',
  'warehouse.disposition': 'record the results of warehouse inspections',
  'destinations.view': 'see return destinations',
  'destinations.manage': 'change return destinations',
  'fraud.view': 'see fraud reports',
  'fraud.report': 'report fraud',
  'carts.create': 'create carts',
  'reports.view': 'see summaries of returns',
  'developer.view': 'see webhook subscriptions',
  'developer.manage':
    'create and change webhook subscriptions, rotate their secrets, see deliveries and send them again',
  'team.manage': 'see and disconnect the assistants of the whole team',
  'shop.manage': '',
};

/** The headings of the permissions on the consent page, by the first part of a permission's name. */
const GROUPS = {
  returns: 'Returns',
  policy: 'Policy',
  warehouse: 'Warehouse',
  destinations: 'Destinations',
  fraud: 'Fraud',
  carts: 'Carts',
  reports: 'Reports',
  developer: 'Webhooks',
  team: 'Team',
  shop: 'Shop',
} as const satisfies Readonly<Record<Area<Permission>, string>>;

type Area<P extends string> = P extends `${infer A}.${string}` ? A : never;

/** The texts of these permissions under their headings, in the order of `PERMISSIONS`. */
export function rightsByGroup(
  permissions: readonly Permission[],
): readonly { readonly name: string; readonly rights: readonly string[] }[] {
  return Object.entries(GROUPS).flatMap(([area, name]) => {
    const rights = permissions
      .filter((one) => one.startsWith(`${area}.`))
      .map((one) => RIGHTS[one])
      .filter((text) => text !== '');
    return rights.length > 0 ? [{ name, rights }] : [];
  });
}
