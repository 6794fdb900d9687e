import type { Permission, Role } from '../../tenancy/permissions.ts';

/** The role names that the pages show. */
export const ROLE_NAMES: Readonly<Record<Role, string>> = {
  owner: 'Owner',
  admin: 'Admin',
  returns_agent: 'Returns agent',
  warehouse: 'Warehouse',
  analyst: 'Analyst',
  developer: 'Developer',
};

/** The permission texts that the pages show. */
export const RIGHTS: Readonly<Record<Permission, string>> = {
  'returns.view': 'see returns, their items and their customers',
  'returns.manage': 'add notes to returns, flag and unflag them, cancel them',
  'returns.process': 'process returns: refunds, exchanges and gift cards',
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
};
